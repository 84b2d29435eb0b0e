"""Sentences that look as if they held a secret and hold none: identifiers, and talk about passwords that gives none.

At first sight, the rules held 1 of 133 sentences of `TALK` and none of those of `generate`.
"""

from __future__ import annotations

from random import Random
from uuid import UUID

TALK = """\
I forgot my wifi password again.
The password for the wifi at my sister's place is written on the fridge.
My password expired this morning, so I missed the meeting.
The password policy at work is ridiculous, twelve characters and a symbol.
Do you remember the password for the shared calendar?
The pw is the same as last year, I think.
The PIN for my new card came in a separate letter.
My PIN is easy to remember, it's my grandmother's birthday.
I changed my Netflix password because my ex still used it.
The password to my heart is chocolate cake.
We keep the password for the alarm in an envelope at the bank.
The door code changes every month.
The code for the course is CS101.
The code for Monday's training is in the invitation.
The zip code of my office is 62704.
The area code for Lisbon is 21.
Our postal code is 4050 and the house number is 12.
The error code on the dishwasher is E24.
The discount code SUMMER20 worked for my shoes.
The dress code for Saturday is smart casual.
The password hint was my first pet.
My password manager generates 20 characters by default.
1Password is my password manager and it costs 36 dollars a year.
The wifi at the hotel was slow, but the password was easy.
They asked for a password of at least 8 characters.
The password field on their site doesn't accept spaces.
She told me the password over the phone, but I've lost it.
The password for the exam portal arrives tomorrow.
The passphrase of my dad's laptop is far too long.
Two-factor login sent me three codes in a row.
The verification code never arrived.
The security code on the back of my card has rubbed off.
I typed the PIN wrong three times and the card is blocked.
Their login page is down since 9am.
My login is the same as my email address.
The login works again, thanks to the 2.4.1 update.
The bus pass is 45 euros a month now.
The ski pass is valid for 5 days.
My boarding pass is on my phone.
I passed the exam with 82 points.
Pin the 2024 calendar above the desk.
She pinned 40 photos to the board.
The bowling pin 7 kept standing.
The key to a good curry is patience.
The key for the shed is under the flowerpot.
I lost the key to my bike lock in 2019.
The secret of her bread is a 24-hour rise.
It's no secret that I can't cook.
The token economy of that game changed in 2023.
I won 300 tokens at the arcade.
The API key page of that service moved to the settings.
Our API keys rotate every 90 days.
The API token is stored in the vault, not in the code.
The recovery code is printed and lies in the safe.
The combination of 12 hours of work and no lunch is killing me.
The combination of red and green is hard for me to see.
The combo for two costs 24 euros.
Order number 7734 is the one with the lamp.
The number for the taxi is 5550199.
The house number is 42 and the flat number is 3.
My room at the hotel is 4812.
The flight to Porto is TP1351 at 14:20.
The gate for our flight is B42.
The garage is open from 8:00 to 18:30.
The pin code of my parents in Bengaluru is 560034.
The alarm at 6:45 woke everyone.
The safe weighs 120 kg, we needed four people.
I use the phone 5 hours a day, says the report.
The laptop in the office is from 2018.
My phone is an iPhone15 and I hate the charger.
We run Windows11 on the old laptop.
The guest network is called Fritz7590.
Our wifi is called Home-2.4GHz.
The router is a FritzBox7590 with WPA3-Personal.
I set the password to expire in June.
We changed the password to something longer.
He set his phone to silent.
They asked me to reset the password to continue.
I need a password to log in.
I gave Tom the password to Netflix.
The password of the week in the pub quiz is always silly.
Is the password for the router on the sticker?
What's the password? I forgot.
What is the wifi password here?
What was the code for the gate again?
Never send a password by email.
I never share my passwords with anyone.
My passwords are all different now.
My credentials are fine, HR confirmed it.
My credentials for the conference arrived, a badge with my photo.
I use a passkey instead of a password since 2023.
Passwordless login is so much nicer.
The safe word is for emergencies only.
My SSN card got lost in the move.
I need my social security number for the form.
The IBAN is on the invoice, page 2.
My bank wants a new IBAN from the landlord.
The card ending in 4242 was declined.
My card expires 08/29.
The seed phrase belongs on paper, not in the cloud.
I planted seed potatoes in 12 rows.
The private key of our server never leaves the machine.
You need a public key and a private key for that.
The certificate begins with BEGIN CERTIFICATE, as always.
Das Passwort ist falsch, sagt er.
Das Passwort für das WLAN hängt am Kühlschrank.
Ich habe mein Passwort vergessen.
Die PIN kommt mit der Post.
Mein Kennwort läuft in drei Tagen ab.
J'ai oublié mon mot de passe.
Le mot de passe est trop court.
He olvidado la contraseña del wifi.
La contraseña es demasiado corta.
A senha do wifi está na geladeira.
密码是什么？
我忘记了密码。
パスワードを忘れました。
The admin password should never be the default.
The password must contain 3 digits and 1 symbol.
The password was leaked in the 2021 breach.
Rotating the password every 30 days is pointless, says NIST.
The password we used at school was a running joke.
Ask Dana for the password of the printer on floor 3.
The printer on floor 3 has no password.
I have 214 passwords in my manager.
My watch needs a 4-digit PIN now.
Our front door has a 6-digit code.
The PIN pad at the shop was broken.
PIN entry failed at the station machine.
The lock on the bathroom door is stuck at 3.
The safe in the hotel room is too small for my 15-inch laptop.
The book is called Password to Larkspur Lane.
The film Swordfish is about a password.
Password was voted the worst password of 2022.""".splitlines()

ENTRIES = """\
I log in to the bank with my phone.
I log in with my Google account every morning.
I sign in with GitHub, it is easier.
I sign in to Spotify with Facebook since 2016.
I log in to work with a YubiKey 5.
I log in with two-factor since 2019.
I logged in with a 24-hour delay.
We signed in with the 2024 form.
I got into the habit of running with Strava2go people.
I got in on the 8:15 train with Anna.
We got into the museum with the 2-for-1 voucher.
She gets into trouble with the HOA every month.
I got into photography with an iPhone15.
I got into coding with Python3.
I got into climbing with a friend from C25K.
He signed on with the agency for 6 months.
I log on with Windows11 Hello.
I log in with Firefox128 because Chrome fails.
I log in from Berlin using Wi-Fi6 at home.
I sign in using WPA2-Personal at the office.
They log in with COVID-19 passes now.
The network key switch is an HP-2530.
The wifi is slow, the key fob works though.
The router came with a key ring.
The network in our office is called Casa, key people know it.
My network at work is small; key contacts are in HR.
Networking is key to getting a job in 2024.
A good network is the key to success.
The red key opens the shed.
My network settings list key AES-256.
The wifi thermostat has the product key ABCD-1234-EFGH.
On the network diagram, key PROJ-1234 is the firewall.
The red house has its key under the pot.
The alarm goes off at 6:45.
The alarm is armed with two sensors.
The alarm is disarmed with an app.
The door is opened with a remote.
The gym opens at 0600 on weekdays.
The gym opened with 400 people last year.
The gym is opened with a 2023 membership card.
The building opened with 1200 seats.
The office opens with 30 desks in May.
The warehouse opens with 250 workers.
The parking opens with 120 places.
The house unlocks with my phone.
My phone unlocks with Face ID.
I unlock my phone with my thumb 200 times a day.
I open the garage with the remote 4 times a day.
I turn off the alarm with my phone at 0630.
I turn off the alarm by 7.
Use 2 keys to open the door.
It takes 120 seconds to open the door.
It took 300 tries to unlock the phone.
We paid 450 to open the safe.
I paid 120 to unlock the phone.
Press 1 to open the gate.
Dial 112 if the alarm sounds.
Room 4812 opens the door to the terrace.
Flat 204 opens the door for everyone.
The manager of shop 3012 opens the gate at dawn.
Bus 204 opens the door early.
At 0700 opens the gate.
I used 500 to open the account.
In 2019 I got 300 to open the studio.
I need 5000 to open the studio.
We raised 20000 to open the cafe.
They want 2500 to open the building.
I plan to enter the 2024 marathon.
Use the 404 to get to the office.
Commit 3f9d2ab1c7 is the token refactor.
The branch feature-4821-login is for the token refresh.
PROJ-4821 is the access token ticket.
The class TokenStore2024Impl is for bearer tokens.
projects2024/app/source_files is for the secret project.
I use gpt-4o-2024-08-06 as my secret weapon.
I use tomatoes-2024-08-batch as my secret ingredient.
https://example.com/docs/2024/index is for api keys.
Team-2024-Building-Day is our secret event.
The docs/2024/08/report.md is for the access keys.
CamelCaseName2024Test was my secret project.
I keep reading_list_2024_final as a secret.
node-v18-lts is what I use.
B42 is what I type at the gate.
CS101 is what I enter on the form.
I sent my CV to 20 firms to get into banking.
GMAT700 to get into that school is normal.
I need a 3.8GPA to get into medical school.
I ran 10kilometres to get in shape.
I lost 12kg to get into that dress.
It took 45minutes to get into the stadium.
I use 1Password to log in everywhere.
I use OAuth2.0 to log in.
We use SAML2 to sign in.
I use my iPhone15 to sign in.
I take the B42bus to get in on Mondays.
I use 2FA/OTP to log in.
M a r i a is how I spell it.
I love P 1 n k songs.
The c0de club meets on Mondays.
My p@ss is lost.
The p4ssword was wrong.
W I F I is an acronym.
Mу friend Олег likes my password manager.
The naïve café’s password… is on the wall.
ＦＵＬＬ width text is fun and the password is wrong.
The base64 of hello is aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ=
Our trace id is dGhpcyBpcyBqdXN0IGEgdHJhY2UgaWQgMTIzNDU2Nzg5MA==""".splitlines()
"""Talk about logging in and opening, about networks, keys and names in code. At first sight, the rules held 20 of these 107."""

_HEX, _UPPER = "0123456789abcdef", "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


def _isbn(random: Random) -> str:
    digits = [9, 7, 8, *(random.randrange(10) for _ in range(9))]
    check = -sum(digit * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10
    text = "".join(map(str, [*digits, check]))
    return f"{text[:3]}-{text[3]}-{text[4:9]}-{text[9:12]}-{text[12]}"


def generate(count: int = 20) -> list[str]:
    """Make sentences with identifiers of each kind, the same at every call."""
    random = Random(26)

    def pick(alphabet: str, length: int) -> str:
        return "".join(random.choice(alphabet) for _ in range(length))

    sentences = []
    for _ in range(count):
        number, id_ = random.randrange(10**6, 10**12), UUID(int=random.getrandbits(128), version=4)
        product = "-".join(pick(_UPPER, 5) for _ in range(5))
        sentences += [
            f"My order number is {number}.",
            f"The order 302-{pick('0123456789', 7)}-{pick('0123456789', 7)} hasn't shipped yet.",
            f"The commit is {pick(_HEX, 40)}.",
            f"We reverted {pick(_HEX, 7)} and then {pick(_HEX, 12)} yesterday.",
            f"The checksum is sha256:{pick(_HEX, 64)}",
            f"The md5 of the download is {pick(_HEX, 32)}.",
            f"Our customer id is {id_}.",
            f"I opened the ticket {str(id_).upper()} last week.",
            f"The product key of my old Windows is {product}.",
            f"I bought it with the key {product} in the box.",
            f"I'm reading the book with the ISBN {_isbn(random)}.",
            f"The tracking number is 1Z{pick(_UPPER, 16)}.",
            f"The parcel {pick('0123456789', 20)} is at the neighbours'.",
            f"My invoice {random.randrange(2020, 2027)}-{random.randrange(10**5):05} is unpaid.",
            f"The serial number of the bike is {pick(_UPPER, 3)}{pick('0123456789', 9)}.",
            f"My phone number is +49 30 {pick('0123456789', 8)}.",
            f"The booking reference is {pick(_UPPER, 6)}.",
            f"The session was {random.randrange(1, 9)}:{random.randrange(60):02} long on 2024-0{random.randrange(1, 9)}-11.",
            f"The photo is IMG_2024{pick('0123456789', 4)}_{pick('0123456789', 6)}.jpg in the shared album.",
            f"The video is at https://video.example/watch?v={pick(_UPPER + _HEX, 11)} if you like.",
            f"The image digest is sha512-{pick(_HEX, 128)}.",
            f"The EAN on the box is {pick('0123456789', 13)}.",
        ]
    return sentences
