"""The parity corpus: texts that a tokenizer or a model could get wrong, the same on every run.

Literals of special tokens are left out: the product reads them as text, transformers does not.
Any change here asks for `make_minilm.py` to be run again.
"""

import hashlib
import json
import random
from collections.abc import Iterator, Sequence

LIMIT_TOKENS = 256  # of all-MiniLM-L6-v2, [CLS] and [SEP] included


def corpus() -> tuple[str, ...]:
    """Texts of at most `LIMIT_TOKENS` tokens under all-MiniLM-L6-v2's tokenizer."""
    return (*KNOWN, *_PROSE, *_SCRIPTS, *_EMOJI, *_MARKS, *_SHAPES, *_ladder(), *_mixtures())


def over_long() -> tuple[str, ...]:
    """Texts above the limit, compared with truncation on."""
    words = _Words(seed=3)
    return (
        words.text(LIMIT_TOKENS - 1),  # one token too many
        words.text(LIMIT_TOKENS),
        words.text(400),
        words.text(2000),
        _SCRIPTS[0] + " " + "Съешь же ещё этих мягких французских булок. " * 40,
        "検索拡張生成は知識を外部から取り出す。" * 30,
        "👩‍🚀🇯🇵👍🏽 " * 300,
        "x" * 101 + " " + "un" * 49 + " " + words.text(300),
        "int main(void) { return 0; } " * 60,
        "9" * 99 + " " + "3.14159 " * 120,
    )


def sha256(texts: Sequence[str]) -> str:
    """Of the list as JSON: names the texts a reference was made from."""
    return hashlib.sha256(json.dumps(list(texts), ensure_ascii=True).encode()).hexdigest()


def _ladder() -> Iterator[str]:
    """One text a length in tokens: each word below is one WordPiece token."""
    words = _Words(seed=1)
    lengths = (*range(3, 34, 2), *range(40, 241, 10), 63, 64, 65, 127, 128, 129, 191, 193)
    for tokens in (*lengths, 251, 252, 253, 254, 255, 256):
        yield words.text(tokens - 2)


def _mixtures() -> Iterator[str]:
    """Pieces of everything above in one text, joined by every kind of gap."""
    rng = _Rng(seed=2)
    pieces = (*_SCRIPTS, *_EMOJI, *_MARKS, *_PROSE)
    gaps = (" ", "  ", "\n", "\t", "\u00a0", "—", ", ", "", "\u200b")
    for _ in range(40):
        text = ""
        for _ in range(1 + rng.below(4)):
            text += rng.choice(pieces)[: 1 + rng.below(40)] + rng.choice(gaps)
        yield text


class _Rng:
    """Only `random()`, whose stream Python promises to keep; `choice` and `randint` may change."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311

    def below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def choice(self, options: Sequence[str]) -> str:
        return options[self.below(len(options))]


class _Words:
    def __init__(self, seed: int) -> None:
        self._rng = _Rng(seed)

    def text(self, words: int) -> str:
        return " ".join(self._rng.choice(_VOCABULARY) for _ in range(words))


_VOCABULARY_TEXT = """
river stone garden window letter market winter summer music paper silver golden
mountain valley morning evening doctor teacher student captain engine signal number
history science language picture village station bridge forest island ocean desert
the of and to in for with on at from by about into over after under between through
runs walks speaks writes reads builds carries finds keeps leaves holds brings turns
small large quiet bright early late warm cold heavy light simple strange modern ancient
"""
_VOCABULARY = tuple(_VOCABULARY_TEXT.split())

KNOWN = (  # their cosines are published: .6660, .1046, .1411
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
)

_PROSE = (
    "This is an example sentence",
    "Each sentence is converted",
    "A florilegium is a gathering of flowers, and of texts.",
    "How do I reset my password?",
    "how do i reset my password",
    "HOW DO I RESET MY PASSWORD???",
    "The quick brown fox jumps over the lazy dog.",
    "Retrieval quality depends on the query as much as on the index.",
    "Dr. Smith isn't here; he'll be back at 5 p.m. (maybe).",
    "Mitochondria produce adenosine triphosphate by oxidative phosphorylation.",
    "The committee's decision, although unanimous, was appealed twice before it took effect.",
    "Yes.",
    "no",
    "a",
    "I",
    "Bank of the river, or bank of the rich?",
    "Buffalo buffalo Buffalo buffalo buffalo buffalo Buffalo buffalo.",
    "To be, or not to be, that is the question: whether 'tis nobler in the mind to suffer.",
    "She said: \"They told me, 'never again', and left.\"",
    "Interest rates rose by 0.25 percentage points to 5.5% in July 2023.",
    "It was the best of times, it was the worst of times, it was the age of wisdom.",
    "The treaty was signed at Westphalia in 1648 after thirty years of war.",
    "Which vaccines are recommended for adults over sixty-five?",
    "Paris is the capital of France.",
    "France's capital city is called Paris.",
    "A transformer encoder maps a sequence of tokens to a sequence of vectors of equal length.",
    "Gradient descent converges slowly along directions of small curvature.",
    "Add the flour, whisk until smooth, then rest the batter for half an hour.",
    "Turn left at the lights; the museum is opposite the old post office.",
    "Antidisestablishmentarianism and floccinaucinihilipilification are long words.",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "re-entrant, non-blocking, lock-free, wait-free",
    "e.g. i.e. etc. vs. cf. et al. No. 5 St. John's",
    "naïve café résumé façade Ångström jalapeño",
    "ＦＵＬＬＷＩＤＴＨ ｌｅｔｔｅｒｓ １２３",
    "ﬁnancial ﬂow, ﬃ ligature, ℌ𝔢𝔩𝔩𝔬 𝓦𝓸𝓻𝓵𝓭 𝟙𝟚𝟛",
    "x² + y³ = z⁴, H₂O, 10⁻³, ½ cup, 3⁄4 mile",
    "lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor",
    "unbelievable uncharacteristically counterrevolutionaries electroencephalographically",
    "thE cAsE oF lEtTeRs sHoUlD nOt MaTtEr",
)

_SCRIPTS = (
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Где находится ближайшая станция метро?",
    "Київ — столиця України, її мова — українська.",
    "Ђурђевак цвета у пролеће.",
    "Здравей, свят! Ъгълът е остър.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας.",
    "ΟΔΥΣΣΕΥΣ σοφός Σίσυφος",
    "صِف خَلقَ خَودِ كَمِثلِ الشَمسِ إِذ بَزَغَت",
    "ما هي عاصمة المملكة العربية السعودية؟",
    "زبان فارسی، می‌خواهم ۱۲۳۴ کتاب بخوانم.",
    "اردو پاکستان کی قومی زبان ہے۔",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה.",
    "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण",
    "क्या आप हिन्दी बोलते हैं? क़ख़ग़ज़",
    "বাংলা ভাষা পৃথিবীর অন্যতম ভাষা।",
    "தமிழ் மொழி மிகவும் பழமையானது.",
    "తెలుగు భాష ద్రావిడ భాష.",
    "ਪੰਜਾਬੀ ਗੁਰਮੁਖੀ ਲਿਪੀ",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน",
    "กรุงเทพมหานคร",
    "ພາສາລາວ",
    "ဗမာစာ မြန်မာစာ",
    "ភាសាខ្មែរ",
    "敏捷的棕色狐狸跳过了懒狗。",
    "機器學習與資訊檢索",
    "人工知能は東京大学で研究されています。",
    "いろはにほへと ちりぬるを",
    "カタカナ ﾊﾝｶｸ ｶﾀｶﾅ ガ ヴ ー",
    "다람쥐 헌 쳇바퀴에 타고파",
    "대한민국의 수도는 서울입니다.",
    "한국어 ᄒᆞᆫ글",
    "𠀀𠀁𪚥 extension B ideographs 𠮷野家",
    "ქართული ენა საქართველოს სახელმწიფო ენაა",
    "Հայաստանի մայրաքաղաքը Երևանն է",
    "አማርኛ የኢትዮጵያ ቋንቋ ነው",
    "Tiếng Việt có sáu thanh điệu: à á ả ã ạ a",
    "Zażółć gęślą jaźń",
    "Příliš žluťoučký kůň úpěl ďábelské ódy",
    "İstanbul'da ığdır şişesi, IĞDIR ISPARTA",
    "Straße GROẞ Grüße aus Köln",
    "Þjóðvegur Ísland æ ø å Œuvre ĳsselmeer",
    "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ᐃᓄᒃᑎᑐᑦ",
    "Mixed 日本語 and English и русский و عربي in one line",
    "ⲧⲙⲛⲧⲣⲙⲛⲕⲏⲙⲉ ᚠᚢᚦᚨᚱᚲ 𐤀𐤁𐤂 𒀀𒀁",
)

_EMOJI = (
    "😀",
    "I ❤️ embeddings 🎉🎉🎉",
    "👨‍👩‍👧‍👦 family, 👩🏽‍🚀 astronaut, 🏳️‍🌈 flag",
    "👍 👍🏻 👍🏼 👍🏽 👍🏾 👍🏿",
    "🇩🇪🇫🇷🇯🇵🇺🇳 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "1️⃣2️⃣3️⃣ #️⃣ *️⃣",
    "☺ ☺️ ☺︎ ♥ ♥️",
    "so happy:) ;-) :'( ¯\\_(ツ)_/¯ (╯°□°)╯︵ ┻━┻",
    "🤷🏾‍♀️🤦🏻‍♂️🧑‍🤝‍🧑",
    "great🔥product👌would buy again💯",
    "🫠🫡🫥🩷🪿",
    "© ® ™ ℠ ✓ ✗ ★ ☆ → ⇒ ∞",
)

_MARKS = (
    "e\u0301 \u00e9 e\u0301\u0302\u0303 n\u0303 A\u030a",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324a\u035el\u0337g\u0321o\u0322",
    "no\u00a0break\u00a0space and narrow\u202fone",
    "thin\u2009hair\u200aem\u2003en\u2002figure\u2007ideographic\u3000space",
    "zero\u200bwidth\u200bspace zero\u200cwidth\u200cnon-joiner zero\u200djoiner",
    "word\u2060joiner and \ufeffbyte order mark",
    "soft\u00adhyphen\u00adated",
    "right \u202eto left override\u202c and \u2066isolate\u2069",
    "nul\x00byte bell\x07 backspace\x08 escape\x1b[31mred\x1b[0m",
    "\x01\x02\x03\x04\x05\x06\x0e\x0f\x10\x7f\x80\x9f",
    "tab\tseparated\tvalues\nnew line\r\nwindows line\rold mac\x0bvertical\x0cform feed",
    "next\x85line line\u2028separator paragraph\u2029separator",
    "replacement \ufffd character \ufffc object",
    "private \ue000\uf8ff use \U000f0000 and noncharacter \ufdd0\uffff",
    "\u0301leading combining mark",
    "\u200d\u200d\u200d",
    "\ufe0f\ufe0e",
    "variation\ufe0f selectors\U000e0101",
    "tag\U000e0061\U000e0062 characters",
    "o\u0308\u0323 vs o\u0323\u0308 canonical order",
    "\u1112\u1161\u11ab decomposed hangul \ud55c",
    "\u212b \u00c5 A\u030a angstroms",
    "\u0130\u0131 dotted \u01c5 titlecase \u1e9e",
)

_SHAPES = (
    "",
    " ",
    "\n\n\n",
    " \t \r\n \u3000 ",
    "   leading and trailing   ",
    "many      spaces       between        words",
    ".",
    "?!?!?!?!?!",
    "...",
    "……———–––‘’“”«»‹›„‚",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "-" * 120,
    "=" * 60 + "\n" + "*" * 60,
    "((((((((((((((((((((nested))))))))))))))))))))",
    "。、！？「」『』【】（）〈〉《》",
    "¿Qué? ¡Sí! ؟ ، ؛ । ॥ ๏ ๚",
    "a" * 99,
    "a" * 100,  # WordPiece: the longest word that is not unknown
    "a" * 101,
    "supercalifragilistic" * 10 + " after",
    "before " + "é" * 150 + " after",
    "ж" * 130,
    "ア" * 110,  # kana stay one word
    "漢" * 110,  # each ideograph becomes a word of its own
    "คำ" * 60,
    "A" * 50 + "b" * 50 + " " + "0" * 100 + " " + "0" * 101,
    "x" * 1000,
    "def f(x: int) -> int:\n    return x ** 2  # squares\n",
    "for (size_t i = 0; i < n; ++i) { sum += a[i] * b[i]; }",
    "SELECT id, name FROM users WHERE age >= 21 AND name LIKE '%son' ORDER BY id DESC;",
    '{"model": "all-MiniLM-L6-v2", "input": ["a", "b"], "dimensions": null}',
    "<div class=\"x\"><a href='#'>link</a>&nbsp;&amp;</div>",
    "$ grep -rn 'TODO' src/ | awk -F: '{print $1}' | sort -u > out.txt 2>&1",
    "let x = vec![1u8; 16].iter().map(|b| b.wrapping_mul(3)).collect::<Vec<_>>();",
    "camelCaseIdentifier snake_case_identifier kebab-case-identifier SCREAMING_CASE __dunder__",
    "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nKeyError: 'x'",
    "\\begin{equation} \\int_0^\\infty e^{-x^2} dx = \\frac{\\sqrt{\\pi}}{2} \\end{equation}",
    "https://example.com/path/to/page?query=embedding%20models&lang=en#section-2",
    "mailto:first.last+tag@sub.example.co.uk",
    "C:\\Users\\Name\\file.txt /usr/local/bin/python3.11 ~/notes/*.md",
    "192.168.0.1 2001:db8::ff00:42:8329 00:1A:2B:3C:4D:5E",
    "550e8400-e29b-41d4-a716-446655440000",
    "aGVsbG8gd29ybGQgdGhpcyBpcyBiYXNlNjQ= 0xDEADBEEF #ff8800",
    "0 1 -1 3.14159 1e-10 6.022e23 1,000,000 1.000.000,00 ٣٤٥ ४५६ 一二三",
    "12345678901234567890123456789012345678901234567890",
    "2026-11-29T16:06:44Z 12/31/99 5:45pm 24h 10km/h 37°C $9.99 €5 £3 ¥100 ₹50",
    "+1 (555) 010-9999 ext. 42",
    "A1B2C3 D4-E5_F6 v1.2.3-rc.4+build.5",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "# Title\n\n- item *one*\n- item **two**\n\n> quote `code`\n",
    "word " * 100,
    "the the the the the",
    "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789",
    "##ing ##s ## # ### pieces that look like continuations",
    "qwxzjk vbnrtp zzzzzz xqxqxq",
)
