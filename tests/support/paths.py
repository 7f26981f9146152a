"""Where things are. TENON_BUILD names another build folder than build/release."""
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / os.environ.get("TENON_BUILD", "build/release")
TENON = BUILD / "bin" / "tenon"
LIBRARY = BUILD / "lib" / "libtenon.so"
MODELS = ROOT / ".cache" / "models"
EXPORTED = MODELS / "export"


def model(relative):
    """A fetched model; a clear failure when it is not there."""
    path = MODELS / relative
    if not path.exists():
        raise FileNotFoundError(f"{path.relative_to(ROOT)} is missing; run scripts/fetch_models")
    return path
