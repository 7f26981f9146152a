"""Magika on real files of this machine: the labels of its own package, with the model run by Tenon."""
import os
import pathlib

import numpy as np
from magika import Magika

from support import library, paths

COUNT = {"short": 400, "long": 1000}
ROOTS = ("/usr/bin", "/usr/lib/python3", "/usr/share/doc", "/usr/share/perl", "/usr/include", "/usr/lib/x86_64-linux-gnu", "/etc", "/usr/share")


class TenonSession:
    """Stands where Magika has an ONNX Runtime session."""

    def __init__(self, session):
        self.session = session

    def run(self, _, inputs):
        return [self.session.run({"bytes": np.asarray(inputs["bytes"], np.int32)})[0]]


def real_files(count):
    """Up to `count` readable files of many kinds, always the same ones on one machine: at most a few per folder and suffix."""
    chosen, seen = [], {}
    for root in (str(paths.ROOT), *ROOTS):
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if not f.startswith((".", "build")))
            for name in sorted(names):
                path = pathlib.Path(folder, name)
                kind = (root, path.suffix)
                if seen.get(kind, 0) >= 25 or path.is_symlink() or not path.is_file() or not os.access(path, os.R_OK):
                    continue
                if 8 <= path.stat().st_size <= 5_000_000:
                    seen[kind] = seen.get(kind, 0) + 1
                    chosen.append(path)
            if len(chosen) >= count:
                return chosen[:count]
    return chosen


def test_labels_of_real_files(long_mode):
    count = COUNT["long" if long_mode else "short"]
    files = real_files(count)
    assert len(files) >= count // 2
    theirs, ours = Magika(), Magika()
    with library.open_model(paths.model("magika/models/standard_v3_3/model.onnx"), cache_dir="none") as session:
        ours._onnx_session = TenonSession(session)
        want, got = theirs.identify_paths(files), ours.identify_paths(files)
    labels = [(str(f), g.output.label, w.output.label) for f, g, w in zip(files, got, want) if g.output.label != w.output.label]
    assert labels == []
    assert len({w.output.label for w in want}) >= 20, "too few kinds of files to mean anything"
    np.testing.assert_allclose([g.score for g in got], [w.score for w in want], rtol=1e-3, atol=1e-4)
