"""Samples with labels for the accuracy guard, made from what is at hand: rendered lines, files, pictures, sentences.

Each function writes `.npz` files into a folder and returns the metric to judge by. Samples that have one source, as views of one
photograph, share a number in the array `group`.
"""
import ast
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / ".cache" / "models"
WORDS = ("tenon", "mortise", "joint", "Silicon", "accuracy", "Measured", "kernel", "quiet", "Partition", "fast", "bridge", "Harbour",
         "lantern", "winter", "Copper", "window", "river", "Journey", "number", "letter", "2026", "1,984", "37.5", "No. 12", "A-4")


def fonts():
    found = sorted(p for p in pathlib.Path("/usr/share/fonts").rglob("*.ttf") if "Mono" not in p.name or "Sans" in p.name)
    if not found:
        sys.exit("guard: no TrueType fonts are installed (package fonts-dejavu)")
    return found


def rendered_line(rng, text, font_path):
    """A line of text as a picture: font, size, contrast, blur and noise vary."""
    from PIL import Image, ImageDraw, ImageFilter, ImageFont
    font = ImageFont.truetype(str(font_path), int(rng.integers(22, 40)))
    left, top, right, bottom = font.getbbox(text)
    pad, margin = int(rng.integers(3, 9)), int(rng.integers(0, 2))   # a wider margin is read as a space
    ground, ink = int(rng.integers(190, 256)), int(rng.integers(0, 90))
    picture = Image.new("RGB", (right - left + 2 * margin, bottom - top + 2 * pad), (ground,) * 3)
    ImageDraw.Draw(picture).text((margin - left, pad - top), text, font=font, fill=(ink,) * 3)
    if rng.random() < 0.4:
        picture = picture.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.3, 1.1))))
    noisy = np.asarray(picture, np.float32) + rng.normal(0, rng.uniform(0, 18), (picture.height, picture.width, 3))
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


def ocr_lines(folder, count):
    """PP-OCR recognition: `count` lines, judged by exact match of the decoded text. Lines of like width share a file."""
    import onnx
    from PIL import Image
    model = onnx.load(MODELS / "ppocr/ch_PP-OCRv4_rec_infer.onnx", load_external_data=False)
    characters = next(p.value for p in model.metadata_props if p.key == "character").splitlines() + [" "]
    index = {c: i + 1 for i, c in enumerate(characters)}   # 0 is CTC's blank
    rng = np.random.default_rng(11)
    groups = {}
    paths = fonts()
    for _ in range(count):
        text = " ".join(rng.choice(WORDS, rng.integers(1, 4)))
        picture = rendered_line(rng, text, paths[rng.integers(len(paths))])
        width = max(32, round(picture.width * 48 / picture.height / 32) * 32)
        x = np.asarray(picture.resize((width, 48), Image.BILINEAR), np.float32)[:, :, ::-1].transpose(2, 0, 1) / 127.5 - 1
        groups.setdefault(width, []).append((x, [index[c] for c in text]))
    for width, lines in groups.items():
        longest = max(len(ids) for _, ids in lines)
        labels = np.full((len(lines), longest), -1, np.int64)
        for row, (_, ids) in zip(labels, lines):
            row[: len(ids)] = ids
        np.savez(folder / f"{width:05}.npz", x=np.stack([x for x, _ in lines]), labels=labels)
    return "ctc-exact-match"


def stamps():
    """Photographs of animals, plants, food, tools and vehicles on no ground: Debian's package of Tux Paint's stamps, fetched once."""
    folder = ROOT / ".cache" / "pictures" / "stamps"
    if not folder.exists():
        with tempfile.TemporaryDirectory() as name:
            subprocess.run(["apt-get", "-q", "download", "tuxpaint-stamps-default"], cwd=name, check=True, stdin=subprocess.DEVNULL)
            (package,) = pathlib.Path(name).glob("*.deb")
            subprocess.run(["dpkg-deb", "-x", package, name], check=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(pathlib.Path(name) / "usr/share/tuxpaint/stamps", folder)
    drawn = {"symbols", "space", "naturalforces", "seasonal"}
    return [p for p in sorted(folder.rglob("*.png")) if p.relative_to(folder).parts[0] not in drawn and "_mirror" not in p.name]


MARGIN = 0.1   # of probability, between f32's first and second choice


def pictures(folder, count):
    """EfficientNet-lite0: six views of each photograph, judged by the f32 model's own first choice.

    Views on which f32 itself wavers (ONNX Runtime's f32, its first choice less than MARGIN ahead of the second) are left out: what they
    would show is how often a coin falls differently."""
    import onnxruntime as ort
    from PIL import Image
    session = ort.InferenceSession(SETS["efficientnet"][0], providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(5)
    out, groups, seen = [], [], 0
    for photograph, path in enumerate(stamps()):
        picture = Image.open(path).convert("RGBA")
        if min(picture.size) < 100:
            continue
        for flip in (False, True) * 3:
            side = int(max(picture.size) * rng.uniform(1.05, 1.4))
            ground = Image.new("RGBA", (side, side), (*rng.integers(110, 256, 3), 255))
            place = tuple(int(rng.integers(0, side - n + 1)) for n in picture.size)
            ground.alpha_composite(picture.transpose(Image.FLIP_LEFT_RIGHT) if flip else picture, place)
            pixels = np.asarray(ground.convert("RGB").resize((224, 224), Image.BICUBIC), np.float32) / 255
            x = ((pixels - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)).transpose(2, 0, 1).astype(np.float32)
            logits = session.run(None, {session.get_inputs()[0].name: x[None]})[0][0].astype(np.float64)
            share = np.exp(logits - logits.max())
            second, first = np.sort(share / share.sum())[-2:]
            seen += 1
            if first - second >= MARGIN:
                out.append(x)
                groups.append(photograph)
    print(f"guard: f32 decides {len(out)} of {seen} views by {MARGIN} or more", file=sys.stderr)
    np.savez(folder / "pictures.npz", input=np.stack(out[:count]), group=np.array(groups[:count]))
    return "token-agreement"


def sentences(folder, count):
    """MiniLM: sentences of Python's own documentation, a file each; judged by the order of likeness between their embeddings."""
    vocabulary = {w: i for i, w in enumerate((MODELS / "minilm/vocab.txt").read_text(encoding="utf-8").splitlines())}

    def pieces(word):
        ids, begin = [], 0
        while begin < len(word):
            end = next((e for e in range(len(word), begin, -1) if ("##" * (begin > 0) + word[begin:e]) in vocabulary), None)
            if end is None:
                return [vocabulary["[UNK]"]]
            ids.append(vocabulary["##" * (begin > 0) + word[begin:end]])
            begin = end
        return ids

    found = []
    for path in sorted(pathlib.Path(ast.__file__).parent.glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        docs = (ast.get_docstring(n) for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.Module)))
        found += [" ".join(d.split("\n\n")[0].split()) for d in docs if d]
    rng = np.random.default_rng(2)
    for i, k in enumerate(rng.permutation(len(found))[:count]):
        words = "".join(c if c.isalnum() else f" {c} " for c in found[k].lower()).split()
        ids = [vocabulary["[CLS]"], *[p for w in words for p in pieces(w)][:126], vocabulary["[SEP]"]]
        ids = np.array([ids], np.int64)
        np.savez(folder / f"{i:05}.npz", input_ids=ids, attention_mask=np.ones_like(ids))
    return "rank-agreement"


# Types of which the ending of a name leaves no doubt, as magika calls them.
KNOWN = {"c": "c", "cc": "cpp", "cpp": "cpp", "cmake": "cmake", "css": "css", "csv": "csv", "go": "go", "gz": "gzip",
         "html": "html", "jar": "jar", "js": "javascript", "json": "json", "md": "markdown", "npy": "npy", "npz": "npz", "pem": "pem",
         "png": "png", "py": "python", "pyc": "pythonbytecode", "rst": "rst", "sh": "shell", "so": "elf", "svg": "svg",
         "toml": "toml", "ttf": "ttf", "woff2": "woff2", "xml": "xml", "yaml": "yaml", "zip": "zip", "f90": "fortran"}


def magika_input(path, config):
    """The first and the last bytes without the space around them, filled up with a token that is none."""
    size, block, filler = config["beg_size"], config["block_size"], config["padding_token"]
    with open(path, "rb") as file:
        head = list(file.read(block).lstrip()[:size])
        file.seek(max(path.stat().st_size - block, 0))
        tail = list(file.read(block).rstrip()[-size:])
    return head + [filler] * (size - len(head)) + [filler] * (size - len(tail)) + tail


def files(folder, count):
    """magika: files of known type from this machine, as many of each as there are; judged by their types."""
    config = json.loads((MODELS / "magika/models/standard_v3_3/config.min.json").read_text())
    kinds = {label: i for i, label in enumerate(config["target_labels_space"])}
    rng = np.random.default_rng(9)
    found = {}
    for root in ("/usr", "/opt", sys.prefix):
        for path in sorted(pathlib.Path(root).rglob("*.*")):
            label = KNOWN.get(path.suffix[1:])
            if label and path.is_file() and not path.is_symlink() and path.stat().st_size >= 64:
                found.setdefault(label, []).append(path)
    rounds = {label: [paths[i] for i in rng.permutation(len(paths))] for label, paths in sorted(found.items())}
    chosen = []
    while len(chosen) < count and any(rounds.values()):
        for label, paths in rounds.items():
            if paths and len(chosen) < count:
                chosen.append((paths.pop(), label))
    x = np.array([magika_input(path, config) for path, _ in chosen], np.int32)
    np.savez(folder / "files.npz", bytes=x, labels=np.array([kinds[label] for _, label in chosen], np.int64))
    return "top1"


def groups(folder):
    """One number a sample, in the order of the files and their rows; every sample is its own group where nothing else is said."""
    out = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as z:
            rows = len(z[z.files[0]])
            own = z["group"].tolist() if "group" in z.files else [f"{path.name}, {i}" for i in range(rows)]
        out += own
    return out


SETS = {
    "rec": (MODELS / "ppocr/ch_PP-OCRv4_rec_infer.onnx", ocr_lines, 1000),
    "efficientnet": (MODELS / "export/efficientnet_lite0_dynamo.onnx", pictures, 1200),
    "magika": (MODELS / "magika/models/standard_v3_3/model.onnx", files, 1200),
    "minilm": (MODELS / "export/minilm_dynamo.onnx", sentences, 400),
}
