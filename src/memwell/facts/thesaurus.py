"""Which words say the same, which say nothing, and which kinds of words there are: data for comparing short statements.

Each line of SYNONYMS is one meaning; its first word stands for it. Only words that can be exchanged in an everyday
statement about somebody belong together: what merely has to do with each other (tea and coffee) must never meet here.
"""

from __future__ import annotations


def _words(text: str) -> list[str]:
    return text.split()


SYNONYMS = """
like love enjoy adore fond fan prefer passionate
hate dislike detest loathe despise
live reside based
work job employed employment profession occupation career
train prepare training preparation
buy purchase bought
begin start began begun started
finish complete completed
afraid scared frightened terrified fear phobia
allergic allergy
study student studied studies studying
university uni college
child kid children
mother mum mom mama
father dad papa
grandmother grandma granny
grandfather grandpa
spouse husband wife
partner boyfriend girlfriend
film movie
favourite favorite
colour color
bike bicycle
car automobile
apartment flat
phone telephone cell mobile cellphone
picture photo photograph
trip journey travel travelling traveling traveled travelled
fly flight flying flew
holiday vacation
trouble difficulty struggle
food dish meal
want wish desire dream hope
plan intend planning intention
big large huge
small little tiny
fast quick
doctor physician
lawyer attorney
shop store
illness disease
ill sick
sad unhappy
glad happy
baby newborn
present gift
speak talk spoke spoken
teach teacher taught teaching
paint painter painted painting paintings
write writer wrote written writing
sing singer sang singing
run runner ran running jog jogging
swim swimmer swam swimming
cook cooking
drive drove driven driving
wed wedding marry married marriage
call called name named
gave give given donate donated
visit visited visiting
grow grew grown
need require
assist help
repair fix
choose chose chosen pick
reply replies answer answers response responses
concise brief short
email e-mail
company firm
road street
old age aged
weekly week
daily day
go goes going went gone
yearly year annual annually
""".strip().splitlines()

OPPOSITES = {"like": "hate", "hate": "like"}
"""What cannot be said of the same thing at the same time, by the words that stand for a meaning."""

FILLERS = _words("""
a about absolutely actually again already also always anyway as at back basically certainly currently definitely ever exactly
finally fluently get gets getting got gotten has have having honestly just kind know lately literally lot lots maybe mostly much
nowadays of ok okay own particularly please pretty quite rather really recently remember said same says seriously simply so
still every often suffer suffers sure tell tells thing things though time today told too totally truly usually
very well whole yeah yes yet keep keeps kept while home up
""")
"""Words that make no difference to what is stated, beside the stop words of the search."""

_UNITS = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty"
)
_TENS = _words("thirty forty fifty sixty seventy eighty ninety")
NUMBERS = {word: str(value) for value, word in enumerate(_UNITS) if value > 1}  # "one" is mostly a pronoun
NUMBERS |= {word: str(10 * value) for value, word in enumerate(_TENS, 3)}

MONTHS = _words("january february march april may june july august september october november december")
WEEKDAYS = _words("monday tuesday wednesday thursday friday saturday sunday")

PROFESSIONS = _words(
    "accountant actor actress administrator advisor agent analyst architect artist assistant attorney baker barber barista "
    "bartender biologist bookkeeper builder butcher carpenter cashier chef chemist cleaner clerk coach consultant "
    "contractor cook coordinator counselor counsellor dentist designer developer director doctor driver economist editor "
    "electrician engineer farmer firefighter fisherman florist freelancer gardener geologist hairdresser instructor "
    "investigator janitor journalist judge lawyer lecturer librarian lifeguard manager marketer mechanic midwife model "
    "nanny nurse officer optician paralegal paramedic pharmacist photographer physician physicist physiotherapist pilot "
    "plumber policeman politician professor programmer psychologist realtor receptionist recruiter reporter researcher "
    "salesman salesperson saleswoman scientist secretary sheriff soldier solicitor statistician supervisor surgeon "
    "tailor teacher technician therapist trader trainer translator tutor vet veterinarian waiter waitress welder writer"
)

LANGUAGES = _words(
    "arabic bengali chinese czech danish dutch english finnish french german greek hebrew hindi hungarian indonesian italian "
    "japanese korean mandarin norwegian persian polish portuguese romanian russian spanish swahili swedish thai turkish "
    "ukrainian urdu vietnamese"
)

COUNTRIES = _words(
    "argentina australia austria bangladesh belgium bolivia brazil britain bulgaria cambodia canada chile china colombia croatia "
    "cuba cyprus denmark ecuador egypt england estonia ethiopia europe finland france germany ghana greece hungary iceland "
    "india indonesia iran iraq ireland israel italy jamaica japan jordan kenya korea latvia lebanon lithuania malaysia malta "
    "mexico morocco nepal netherlands nigeria norway pakistan peru philippines poland portugal romania russia scotland serbia "
    "singapore slovakia slovenia spain sweden switzerland syria taiwan tanzania thailand tunisia turkey uganda uk ukraine "
    "usa us vietnam wales"
)

CITIES = [
    *_words(
        "amsterdam ankara antwerp athens atlanta auckland austin baltimore bangkok barcelona basel beijing beirut "
        "belgrade berlin bern birmingham bogota bologna bordeaux boston braga bratislava brisbane bristol brussels "
        "bucharest budapest cairo calgary chicago cologne copenhagen dallas delhi denver detroit dresden dubai dublin "
        "edinburgh florence frankfurt geneva genoa ghent glasgow gothenburg hamburg hanoi helsinki houston istanbul "
        "jakarta johannesburg kathmandu kiev krakow kyiv kyoto lagos leeds leipzig lima lisbon liverpool ljubljana london "
        "lyon madrid malaga manchester manila marseille melbourne miami milan montreal moscow mumbai munich nairobi "
        "naples nashville osaka oslo ottawa paris perth philadelphia phoenix pittsburgh porto portland prague riga rome "
        "rotterdam santiago seattle seoul seville shanghai sofia stockholm stuttgart sydney tallinn tampa tokyo toronto "
        "toulouse turin utrecht valencia vancouver venice vienna vilnius warsaw wellington zagreb zurich"
    ),
    "buenos aires",
    "cape town",
    "hong kong",
    "kuala lumpur",
    "los angeles",
    "mexico city",
    "new york",
    "rio de janeiro",
    "san diego",
    "san francisco",
    "sao paulo",
    "tel aviv",
]
"""Known without a capital letter."""

PAST = _words(
    "ate became began bought broke brought built came caught chose cut did drank drew drove fell felt flew forgot found gave "
    "got grew had heard held hurt kept knew learnt left lent lost made met moved paid put quit ran read rode said sang sat saw "
    "sent shot slept sold spent spoke stood swam taught thought threw told took understood was went were woke won wore wrote"
)
"""Past forms that do not end in "-ed"."""

ONE_EACH = _words("mother father parents wife husband partner girlfriend boyfriend fiance fiancee boss")
"""Of whom there is one, so that it is the same person if no name is given."""

KIN = _words(
    "mother mum mom father dad parents sister brother sibling son daughter child kid baby grandmother grandma grandfather "
    "grandpa cousin aunt uncle niece nephew wife husband partner girlfriend boyfriend fiance fiancee friend colleague coworker "
    "boss neighbour neighbor roommate flatmate ex stepmother stepfather stepson stepdaughter"
)
