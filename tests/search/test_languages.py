"""Search in other languages: an entry is found by one of its words and ranked above other entries of that language."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from ..cases import cases
from ..engines import Memory


class Tongue(NamedTuple):
    """Sentences of one language, and words that only the sentence with that number holds."""

    sentences: list[str]
    asked: list[tuple[str, int]]


TONGUES = {
    "german": Tongue(
        [
            "Die Äpfel liegen im Kühlschrank neben der Milch.",
            "Meine Schwester wohnt in der Goethestraße in München.",
            "Der Zug nach Köln fährt um halb neun ab.",
            "Am Wochenende möchte ich in den Bergen wandern.",
            "Er trinkt seinen Kaffee immer ohne Zucker.",
            "Die Rechnung muss bis Freitag bezahlt werden.",
            "Unser Hund schläft gern unter dem Tisch.",
            "Sie lernt seit zwei Jahren Geige.",
            "Das Fenster im Wohnzimmer lässt sich nicht schließen.",
            "Wir haben gestern einen alten Film gesehen.",
            "Der Arzt hat ihr Ruhe verordnet.",
            "Im Garten blühen die ersten Rosen.",
            "Mein Vater repariert alte Uhren.",
            "Die Kinder spielen auf dem Hof Fußball.",
        ],
        [
            ("Kühlschrank", 0),
            ("KÜHLSCHRANK", 0),
            ("kuhlschrank", 0),
            (unicodedata.normalize("NFD", "Kühlschrank"), 0),
            ("Wo sind die Äpfel?", 0),
            ("Goethestraße", 1),
            ("GOETHESTRASSE", 1),
            ("München", 1),
            ("Geige", 7),
            ("Wer repariert Uhren?", 12),
            ("Fussball", 13),
        ],
    ),
    "chinese": Tongue(
        [
            "我妹妹住在上海，她是一名护士。",
            "冰箱里有三个苹果和一瓶牛奶。",
            "他每天早上七点去公园跑步。",
            "这本小说是我最喜欢的礼物。",
            "火车晚上九点从北京出发。",
            "我们周末想去山上爬山。",
            "医生让他多喝水多休息。",
            "发票必须在星期五之前付清。",
            "那只猫喜欢睡在沙发上。",
            "她学小提琴已经两年了。",
            "客厅的窗户关不上。",
            "昨天晚上我们看了一部老电影。",
            "父亲会修理旧手表。",
            "花园里的玫瑰开了。",
        ],
        [("上海", 0), ("护士", 0), ("苹果", 1), ("谁住在上海？", 0), ("小提琴", 9), ("玫瑰", 13), ("猫", 8)],
    ),
    "arabic": Tongue(
        [
            "تعيش أختي في القاهرة وتعمل ممرضة.",
            "في الثلاجة ثلاث تفاحات وزجاجة حليب.",
            "يذهب كل صباح إلى الحديقة ليركض.",
            "هٰذَا كِتَابٌ جَمِيلٌ عَنِ التَّارِيخِ.",
            "يغادر القطار في الساعة التاسعة مساء.",
            "نريد أن نتسلق الجبل في العطلة.",
            "نصحه الطبيب بالراحة وشرب الماء.",
            "يجب دفع الفاتورة قبل يوم الجمعة.",
            "تنام القطة على الأريكة.",
            "تتعلم العزف على الكمان منذ سنتين.",
            "نافذة غرفة الجلوس لا تغلق.",
            "شاهدنا أمس فيلما قديما.",
            "يصلح والدي الساعات القديمة.",
            "تفتحت الورود في البستان.",
        ],
        [
            ("القاهرة", 0),
            ("ممرضة", 0),
            ("كتاب", 3),
            ("كِتَاب", 3),
            ("التاريخ", 3),
            ("الكمان", 9),
            ("الكَمَان", 9),
            ("الفاتورة", 7),
            ("أين تعيش أختي؟", 0),
        ],
    ),
    "japanese": Tongue(
        [
            "妹は大阪に住んでいて、看護師です。",
            "冷蔵庫にりんごと牛乳があります。",
            "彼は毎朝公園を走ります。",
            "コーヒーには砂糖を入れません。",
            "電車は夜九時に東京を出ます。",
            "週末は山に登りたいです。",
        ],
        [("大阪", 0), ("看護師", 0), ("りんご", 1), ("コーヒー", 3), ("ｺｰﾋｰ", 3), ("東京", 4)],
    ),
    "korean": Tongue(
        [
            "제 여동생은 부산에서 간호사로 일해요.",
            "냉장고에 사과와 우유가 있어요.",
            "그는 매일 아침 공원에서 달려요.",
            "커피에는 설탕을 넣지 않아요.",
            "기차는 밤 아홉 시에 서울에서 출발해요.",
            "주말에는 산에 오르고 싶어요.",
        ],
        [("부산", 0), ("간호사", 0), ("냉장고", 1), (unicodedata.normalize("NFD", "냉장고"), 1), ("서울", 4), ("설탕", 3)],
    ),
    "thai": Tongue(
        [
            "น้องสาวของฉันอยู่ที่เชียงใหม่และเป็นพยาบาล",
            "ในตู้เย็นมีแอปเปิลกับนม",
            "เขาวิ่งในสวนทุกเช้า",
            "ผมดื่มกาแฟไม่ใส่น้ำตาล",
            "รถไฟออกจากกรุงเทพตอนสามทุ่ม",
            "สุดสัปดาห์นี้เราอยากปีนเขา",
        ],
        [("เชียงใหม่", 0), ("พยาบาล", 0), ("ตู้เย็น", 1), ("กาแฟ", 3), ("รถไฟ", 4)],
    ),
    "hebrew": Tongue(
        [
            "אחותי גרה בחיפה ועובדת כאחות.",
            "במקרר יש תפוחים וחלב.",
            "הוא רץ בפארק כל בוקר.",
            "סֵפֶר יָפֶה עַל הִיסְטוֹרְיָה.",
            "הרכבת יוצאת בתשע בערב.",
            "בסוף השבוע נרצה לטפס על ההר.",
        ],
        [("בחיפה", 0), ("תפוחים", 1), ("ספר", 3), ("היסטוריה", 3), ("הרכבת", 4)],
    ),
    "russian": Tongue(
        [
            "Моя сестра живёт в Казани и работает медсестрой.",
            "В холодильнике лежат яблоки и молоко.",
            "Он бегает в парке каждое утро.",
            "На праздник мы поставили высокую ёлку.",
            "Поезд отправляется в девять вечера.",
            "В выходные мы хотим подняться на гору.",
        ],
        [("Казани", 0), ("ХОЛОДИЛЬНИК", 1), ("яблоко", 1), ("ёлка", 3), ("елка", 3), ("поезда", 4)],
    ),
    "hindi": Tongue(
        [
            "मेरी बहन दिल्ली में रहती है और नर्स है।",
            "फ्रिज में सेब और दूध रखा है।",
            "वह हर सुबह पार्क में दौड़ता है।",
            "मुझे बिना चीनी की चाय पसंद है।",
            "रेलगाड़ी रात नौ बजे निकलती है।",
            "हम सप्ताहांत में पहाड़ पर चढ़ेंगे।",
        ],
        [("दिल्ली", 0), ("सेब", 1), ("चाय", 3), ("रेलगाड़ी", 4), ("पहाड़", 5)],
    ),
    "french": Tongue(
        [
            "Ma sœur habite à Orléans et travaille comme infirmière.",
            "Il y a des pommes et du lait dans le réfrigérateur.",
            "L'été dernier, nous avons loué un château.",
            "Il prend son café sans sucre.",
            "Le train part à neuf heures du soir.",
            "Le garçon a reçu un vélo pour Noël.",
        ],
        [("Orléans", 0), ("Orleans", 0), ("réfrigérateur", 1), ("refrigerateur", 1), ("CHÂTEAU", 2), ("garçon", 5), ("Noel", 5)],
    ),
    "spanish": Tongue(
        [
            "Mi hermana vive en Málaga y es enfermera.",
            "Hay manzanas y leche en el frigorífico.",
            "El niño cumple años mañana.",
            "Toma el café sin azúcar.",
            "El tren sale a las nueve de la noche.",
            "El fin de semana queremos subir a la montaña.",
        ],
        [("Málaga", 0), ("malaga", 0), ("frigorífico", 1), ("niño", 2), ("azucar", 3), ("MONTAÑA", 5)],
    ),
    "portuguese": Tongue(
        [
            "A minha irmã mora em Évora e é enfermeira.",
            "Há maçãs e leite no frigorífico.",
            "O avô conserta relógios antigos.",
            "Ele toma café sem açúcar.",
            "O comboio parte às nove da noite.",
            "A reunião ficou para segunda-feira.",
        ],
        [("Évora", 0), ("evora", 0), ("maçãs", 1), ("relógios", 2), ("açúcar", 3), ("reuniao", 5)],
    ),
    "emoji": Tongue(
        ["Dinner tonight 🍕", "Dinner tonight 🍣", "The launch went well 🎉🚀", "I am sad 😢", "❤️", "👩‍👩‍👧 family trip"],
        [("🍕", 0), ("🍣", 1), ("🚀", 2), ("😢", 3), ("❤", 4), ("❤️", 4), ("👩‍👩‍👧", 5)],
    ),
}  # fmt: skip
CASES = [(tongue, query, number) for tongue, one in TONGUES.items() for query, number in one.asked]


@pytest.fixture(scope="module")
def memory(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory(tmp_path_factory.mktemp("languages"), worker=False) as memory:
        for tongue, one in TONGUES.items():
            for sentence in one.sentences:
                memory.flow(tongue).write(sentence)
        yield memory


@cases(("tongue", "query", "number"), CASES, ids=[f"{tongue}-{query}" for tongue, query, _ in CASES])
def test_a_word_finds_its_sentence_above_all_others(memory: Memory, tongue: str, query: str, number: int) -> None:
    """S0.41, by the word alone as well as by all arms together."""
    for recipe in ("default", "words"):
        hits = memory.flow(tongue).search(query, limit=1000, recipe=recipe)
        assert [hit.content for hit in hits][:1] == [TONGUES[tongue].sentences[number]]
        assert len(hits) == 1 or hits[0].score > hits[1].score


@cases("tongue", TONGUES)
def test_every_sentence_is_its_own_best_hit(memory: Memory, tongue: str) -> None:
    for sentence in TONGUES[tongue].sentences:
        assert memory.flow(tongue).search(sentence, limit=1)[0].content == sentence


def test_turns_in_another_script_are_found_too(memory: Memory) -> None:
    for tongue in ("chinese", "arabic", "german"):
        history = memory.flow(f"{tongue} talk").session("s").history
        history.extend([{"role": "user", "content": sentence} for sentence in TONGUES[tongue].sentences])
        query, number = TONGUES[tongue].asked[0]
        hits = memory.flow(f"{tongue} talk").search(query, include=["turns"])
        assert hits[0].content == TONGUES[tongue].sentences[number]
        assert len(memory.flow(f"{tongue} talk").search(query)) == 0


def test_several_languages_in_one_flow_do_not_hide_each_other(memory: Memory) -> None:
    flow = memory.flow("all of them")
    for one in TONGUES.values():
        for sentence in one.sentences:
            flow.write(sentence)
    for tongue in ("german", "chinese", "arabic", "korean", "russian", "hindi"):
        query, number = TONGUES[tongue].asked[0]
        assert flow.search(query)[0].content == TONGUES[tongue].sentences[number]
