"""One made-up token of each format, put together from pieces, so that nobody takes this file for a leak."""

from __future__ import annotations

_HEX = "0a1b2c3d4e5f6789"
_MIX = "aB3dE5fG7hJ9kL2mN4pQ6rS8tU1vW0xY"
_UP = "A1B2C3D4E5F6G7H8J9K2L3M4N5P6Q7R8"


def hexes(count: int) -> str:
    return (_HEX * 20)[:count]


def mix(count: int) -> str:
    return (_MIX * 20)[:count]


def upper(count: int) -> str:
    return (_UP * 20)[:count]


_ID = f"{hexes(8)}-{hexes(4)}-{hexes(4)}-{hexes(4)}-{hexes(12)}"

TOKENS: dict[str, str] = {
    "aws": "AK" + "IA" + upper(16),
    "aws session": "AS" + "IA" + upper(16),
    "google": "AI" + "za" + mix(35),
    "google oauth": "ya" + "29." + mix(60),
    "google client": "GOC" + "SPX-" + mix(28),
    "google refresh": "1/" + "/0" + mix(40),
    "azure storage": "Account" + "Key=" + mix(86) + "==",
    "azure bus": "SharedAccess" + "Key=" + mix(43) + "=",
    "azure signature": "https://a.blob.example/c?sv=1&" + "sig=" + mix(43) + "%3D",
    "azure client": "abc8" + "Q~" + mix(34),
    "digitalocean": "dop" + "_v1_" + hexes(64),
    "alibaba": "LT" + "AI" + mix(20),
    "tencent": "AK" + "ID" + mix(32),
    "yandex": "AQ" + "VN" + mix(36),
    "heroku": "HR" + "KU-" + mix(60),
    "fly": "fo" + "1_" + mix(43),
    "pulumi": "pu" + "l-" + hexes(40),
    "terraform": mix(14) + ".atlas" + "v1." + mix(67),
    "vault": "hv" + "s." + mix(90),
    "doppler": "dp." + "pt." + mix(43),
    "age": "AGE-SECRET" + "-KEY-1" + upper(58),
    "github": "gh" + "p_" + mix(36),
    "github app": "gh" + "s_" + mix(36),
    "github fine": "github" + "_pat_" + mix(22) + "_" + mix(59),
    "gitlab": "gl" + "pat-" + mix(20),
    "gitlab runner": "GR13" + "48941" + mix(20),
    "atlassian": "ATAT" + "T3" + mix(180),
    "bitbucket": "AT" + "BB" + mix(32),
    "npm": "np" + "m_" + mix(36),
    "npmrc": "//registry.example/:_auth" + "Token=" + mix(36),
    "pypi": "pypi" + "-Ag" + mix(150),
    "rubygems": "ruby" + "gems_" + hexes(48),
    "crates": "ci" + "o" + mix(32),
    "nuget": "oy" + "2" + mix(43).lower(),
    "clojars": "CLO" + "JARS_" + mix(60),
    "docker": "dckr" + "_pat_" + mix(27),
    "sourcegraph": "sg" + "p_" + hexes(40),
    "linear": "lin" + "_api_" + mix(40),
    "buildkite": "bk" + "ua_" + hexes(40),
    "circleci": "CCI" + "PAT_" + mix(22) + "_" + hexes(40),
    "postman": "PM" + "AK-" + hexes(24) + "-" + hexes(34),
    "sentry": "sntr" + "ys_" + mix(100),
    "sonar": "sq" + "u_" + hexes(40),
    "figma": "fi" + "gd_" + mix(40),
    "anthropic": "sk-" + "ant-api03-" + mix(93) + "AA",
    "openrouter": "sk-" + "or-v1-" + hexes(64),
    "openai": "sk-" + mix(48),
    "openai project": "sk-" + "proj-" + mix(120),
    "hugging face": "h" + "f_" + mix(34),
    "groq": "gs" + "k_" + mix(52),
    "xai": "xa" + "i-" + mix(80),
    "replicate": "r" + "8_" + mix(37),
    "perplexity": "pp" + "lx-" + mix(48),
    "tavily": "tv" + "ly-" + mix(32),
    "langsmith": "ls" + "v2_pt_" + hexes(32) + "_" + hexes(10),
    "slack bot": "xo" + "xb-123456789012-123456789012-" + mix(24),
    "slack app": "xa" + "pp-1-A012345-123456-" + hexes(64),
    "slack webhook": "https://hooks." + "slack.com/services/T0123/B0123/" + mix(24),
    "discord webhook": "https://discord.com/api/" + "webhooks/123456789012345678/" + mix(68),
    "discord bot": "M" + mix(25) + "." + mix(6) + "." + mix(38),
    "telegram": "123456789:" + "AA" + mix(33),
    "sendgrid": "S" + "G." + mix(22) + "." + mix(43),
    "mailgun": "ke" + "y-" + hexes(32),
    "mailchimp": hexes(32) + "-u" + "s12",
    "brevo": "xkey" + "sib-" + hexes(64) + "-" + mix(16),
    "twilio": "S" + "K" + hexes(32),
    "resend": "r" + "e_" + mix(8) + "_" + mix(24),
    "stripe": "sk" + "_live_" + mix(24),
    "stripe restricted": "rk" + "_test_" + mix(24),
    "stripe webhook": "wh" + "sec_" + mix(32),
    "square": "sq" + "0atp-" + mix(22),
    "shopify": "shp" + "at_" + hexes(32),
    "braintree": "access_" + "token$production$" + hexes(16) + "$" + hexes(32),
    "plaid": "access" + "-sandbox-" + _ID,
    "flutterwave": "FLW" + "SECK-" + hexes(32) + "-X",
    "databricks": "da" + "pi" + hexes(32),
    "grafana": "gl" + "sa_" + mix(32) + "_" + hexes(8),
    "new relic": "NR" + "AK-" + upper(27),
    "dynatrace": "dt" + "0c01." + upper(24) + "." + upper(64),
    "notion": "nt" + "n_" + mix(46),
    "airtable": "pa" + "t" + mix(14) + "." + hexes(64),
    "planetscale": "psc" + "ale_tkn_" + mix(43),
    "supabase": "sb" + "p_" + hexes(40),
    "hubspot": "pa" + "t-na1-" + _ID,
    "jwt": "ey" + "J" + mix(33) + ".ey" + "J" + mix(60) + "." + mix(43),
    "pem": "-----BEGIN RSA " + "PRIVATE KEY-----\n" + mix(64),
    "openssh": "-----BEGIN OPENSSH " + "PRIVATE KEY-----\n" + mix(64),
    "pgp": "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\n" + mix(64),
    "putty": "PuTTY-User-" + "Key-File-3: ssh-ed25519",
    "postgres": "postgres" + "://app:" + mix(12) + "@db.example:5432/app",
    "mongodb": "mongodb+srv" + "://root:" + mix(12) + "@c0.example/x",
    "redis": "redis" + "://:" + mix(16) + "@cache.example:6379",
    "basic address": "https" + "://alice:" + mix(10) + "@git.example/repo.git",
    "sql server": "Server=db;User Id=sa;Pass" + "word=" + mix(12) + ";",
    "bearer": "Authoriz" + "ation: Bearer " + mix(40),
    "header": "x-api-" + "key: " + hexes(32),
    "environment": "AWS_SECRET_ACCESS_" + "KEY=" + mix(40),
    "json": '{"client_' + 'secret": "' + mix(32) + '"}',
    "card": "4111 1111 " + "1111 1111",
    "card dashed": "5500-0000-" + "0000-0004",
    "card plain": "3782822463" + "10005",
}

TOLD: dict[str, str] = {
    "password is": "My Netflix password is {}.",
    "password colon": "wifi password: {}",
    "password for": "The password for my router is {} by the way",
    "changed to": "I changed my password to {} yesterday.",
    "passcode": "Her phone's passcode is {}",
    "german": "Mein Passwort ist {}",
    "spanish": "la contraseña es {}",
    "french": "le mot de passe est {}",
    "api key": "here's the api key: {}",
    "secret token": "the secret token is {}, keep it",
    "token": "use token {} for the deployment",
}
SECRETS_TOLD = {"password": "Tr0ub4dor" + "&3", "token": mix(32)}

HARMLESS = [
    "The build is " + hexes(40) + ".",
    "Our id is " + _ID + ".",
    "data:image/png;base64," + mix(400),
    "The checksum is sha256:" + hexes(64),
    "Set the variable to sk-xxxxxxxxxxxxxxxxxxxxxxxx.",
    "password=<your password>",
    'password = os.environ["DB_PASSWORD"]',
    "token = get_token(user)",
    "postgres://app:$PASSWORD@db.example/app",
    "postgres://db.example:5432/app",
    "The order number is 4111 1111 " + "1111 1111.",
    "My number is 4111 1111 " + "1111 1112.",
    "ISBN 978-0-306-40615-7",
    "api key: YOUR_API_KEY_HERE_12345",
    "The token ring network of 1985-1995 was slow.",
    "The secret ingredient-of-the-1990s is butter.",
]
