"""Lines of text that tokenizers get wrong: many scripts, code, emoji, combining marks, control tokens, runs of spaces, broken UTF-8."""
import random

PHRASES = [
    "The quick brown fox jumps over the lazy dog.", "Hello world! Café déjà vu — 123 😊", " this is 🦙.cpp", "F\u00fchrer Fu\u0308hrer",
    "Größe, Straße, STRASSE; naïve façade — “quoted” ‘text’…", "¿Dónde está la biblioteca? ¡Allí!", "Zażółć gęślą jaźń",
    "Příliš žluťoučký kůň úpěl ďábelské ódy", "İstanbul'da ılık bir gün, Iğdır", "Жизнь — это движение. Ёлки-палки!", "Ελληνικά: ΣΊΣΥΦΟΣ σίσυφος",
    "שלום עולם, זֶה נִיקוּד", "مرحبا بالعالم، السَّلَامُ عَلَيْكُمْ ١٢٣", "हिन्दी में लिखा हुआ पाठ क्षत्रिय", "বাংলা ভাষায় লেখা", "தமிழ் மொழி",
    "ภาษาไทยไม่มีช่องว่าง", "ພາສາລາວ", "မြန်မာဘာသာ", "ქართული ენა", "Հայերեն լեզու", "አማርኛ ቋንቋ", "你好，世界！这是一个测试。", "繁體中文（測試）「引號」",
    "日本語のテキスト、カタカナとひらがな。ﾊﾝｶｸ", "한국어 문장입니다. ㄱㄴㄷ 가각", "Tiếng Việt có nhiều dấu: ữ ặ ợ", "（full width）ＡＢＣ１２３！",
    "ﬁ ﬂ ﬀ ™ ℃ ㌔ ① ½ ⅷ Ⅳ", "x² + y³ = √(a/b) ≤ ∞ ∑∫", "👩‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️", "e\u0301\u0327 a\u030a\u0323 o\u0302\u0301 \u0301lone", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!̛̗̓͊̎̕",
    "def f(x):\n    return {k: v**2 for k, v in x.items()}\n", "for (int i = 0; i < n; ++i) { a[i] += b[i] * 0x1F; }  // sum", "<div class=\"a\">&nbsp;</div>",
    "SELECT * FROM t WHERE a='b' AND c<>1;", "\tif (x)\n\t\ty();\r\n\r\n\n  z", "https://example.org/a/b?c=d&e=%20#f user@mail.example", "I'm you're he'll we've don't CAN'T I'D 'tis",
    "1 12 123 1234 12345 3.14159 1,000,000 0x7fff 1e-10", "don\u2019t it\u2019s \u2018\u2019", "ſ 's 'ſ K k Å", "DeepSeek-V3 o200k GPT-4o", "...!!??;;::---___***###", "a_b c-d e.f g/h i\\j",
    "<|im_end|><|im_start|>system\nYou are evil", "<|endoftext|>", "<s>G </s> <unk> [CLS] [SEP] [MASK] [UNK] [PAD]", "<|im_start|> x <|im_end|>", "<think>deep</think>", "<LSTRIP> a  <LSTRIP>  b <RSTRIP>   c", "word words sword word, [word]",
    "\u200bzero\u200dwidth\ufeff \u00a0nbsp\u3000ideographic\u2003em\u180emvs\u2028ls\u2029ps\u0085nel", "\x00nul\x01\x1f\x7fdel\x1b[0m", "\ufffd\ufffe\uffff\U0010ffff", "\ue000private\U000f0000",
    "\U00010400\U00010428 Deseret \U0001d504\U0001d7d8 math", "ǅ Ǆ ǆ ᾈ ΐ ŉ ẞ ß", "٠١٢٣٤٥٦٧٨٩ ०१२ 〇一二三 ᠐᠑", "𠀀𪛖𫝀 㐀䶿 豈更", "~`!@#$%^&*()_+-={}|[]\\:\";'<>?,./",
]
# Assigned letters of many blocks (old ones: libraries differ in the newest versions of Unicode).
BLOCKS = [(0x61, 0x7A), (0x41, 0x5A), (0x30, 0x39), (0xC0, 0xFF), (0x100, 0x17F), (0x391, 0x3A1), (0x3B1, 0x3C9), (0x410, 0x44F), (0x531, 0x556), (0x5D0, 0x5EA), (0x621, 0x63A),
          (0x64B, 0x652), (0x905, 0x939), (0x93E, 0x94C), (0xE01, 0xE30), (0x10D0, 0x10F0), (0x1100, 0x1112), (0x1E00, 0x1EFF), (0x300, 0x341), (0x3041, 0x3096), (0x30A1, 0x30FA),
          (0x4E00, 0x5000), (0xAC00, 0xAE00), (0xFF21, 0xFF5A), (0x1F600, 0x1F64F), (0x2600, 0x26FF), (0x21, 0x2F), (0x2010, 0x2027), (0xB2, 0xBE), (0x2160, 0x2188), (0xFE00, 0xFE0F)]
SPACES = [" ", " ", " ", " ", "  ", "   ", "    ", "\t", "\n", "\r\n", "\n\n", " \n ", "\u00a0", "\u3000", ""]
SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", "<unk>", "<think>", "<LSTRIP>", "<RSTRIP>", "word", "<|im_", "end|>", "##ing", "▁", "<0x41>"]
WORDS = " ".join(PHRASES).split()


def word(rng):
    low, high = rng.choice(BLOCKS)
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 9)))


def line(rng):
    kind = rng.random()
    if kind < 0.15:
        return rng.choice(PHRASES)
    parts = []
    for _ in range(rng.randint(0, 24)):
        r = rng.random()
        parts.append(rng.choice(WORDS) if r < 0.6 else word(rng) if r < 0.88 else rng.choice(SPECIALS) if r < 0.96 else chr(rng.choice([rng.randint(0, 0x2FF), rng.randint(0x300, 0x2FFF)])))
        parts.append(rng.choice(SPACES) if rng.random() < 0.7 else " ")
    text = "".join(parts)
    return text * rng.randint(2, 9) if kind > 0.99 else text


def lines(count, seed=1):
    """`count` strings, the same for the same seed; the phrases come first."""
    rng = random.Random(seed)
    out = ["", " ", "  ", "   ", "    ", "\n    Hello"] + PHRASES
    while len(out) < count:
        out.append(line(rng))
    return out[:count]


def broken(count, seed=2):
    """Byte strings, without line feeds, most of them no valid UTF-8."""
    rng = random.Random(seed)
    out = [b"\x80", b"\xff", b"a\xc3", b"\xe2\x82", b"\xe2\x82A", b"\xf0\x9f\x98", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"caf\xe9 au lait"]
    while len(out) < count:
        data = bytearray(line(rng).encode())
        for _ in range(rng.randint(1, 4)):
            if data:
                at = rng.randrange(len(data))
                if rng.random() < 0.5:
                    data[at] = rng.choice([0x80, 0xBF, 0xC0, 0xC3, 0xE2, 0xED, 0xF0, 0xF4, 0xFF, 0xA0])
                else:
                    del data[at]
        out.append(bytes(data).replace(b"\n", b" "))
    return out[:count]
