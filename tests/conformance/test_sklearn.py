"""scikit-learn estimators and pipelines, exported by skl2onnx: Tenon against ONNX Runtime."""
import json
import warnings

import numpy as np
import onnxruntime
import pytest

from support import compare, library

sklearn = pytest.importorskip("sklearn", reason="scikit-learn is not installed in this environment")
skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed in this environment")

from skl2onnx import to_onnx  # noqa: E402
from skl2onnx.common import _container  # noqa: E402
from skl2onnx.common.data_types import (DictionaryType, DoubleTensorType, FloatTensorType, Int64TensorType,  # noqa: E402
                                        StringTensorType)
from sklearn import (calibration, cluster, compose, cross_decomposition, decomposition, discriminant_analysis, ensemble,  # noqa: E402
                     feature_extraction, feature_selection, gaussian_process, impute, linear_model, mixture,
                     multiclass, multioutput, naive_bayes, neighbors, neural_network, pipeline, preprocessing, svm, tree)

RTOL, ATOL = 1e-4, 1e-5
RNG = np.random.default_rng(5)
X = RNG.normal(size=(160, 8)).astype(np.float32)
REAL = (X[:, 0] * 2 - X[:, 1] + 0.3 * X[:, 2] ** 2 + 0.1 * RNG.normal(size=160)).astype(np.float32)
TWO = (REAL > 0.2).astype(np.int64)
THREE = np.digitize(REAL, [-0.8, 0.9]).astype(np.int64)
WORDS = np.array(["no", "maybe", "yes"])[THREE]
MANY = np.stack([REAL, X[:, 3] - X[:, 4]], axis=1)
COUNTS = RNG.poisson(2, size=(160, 8)).astype(np.float32)
BINARY = (X > 0).astype(np.float32)
MISSING = np.where(RNG.random(X.shape) < 0.15, np.nan, X).astype(np.float32)
NAMES = np.array([["red", "small"], ["green", "large"], ["blue", "small"], ["red", "huge"]])[RNG.integers(0, 4, 160)].astype(object)
TEXTS = np.array(["the quick brown fox", "jumps over the lazy dog", "a fox and a dog", "quick quick brown", "lazy lazy"])[
    RNG.integers(0, 5, 160)]
# No probe lies so near a border that the last bit of a score decides its label.
PROBE = RNG.normal(size=(67, 8)).astype(np.float32)


def case(name, estimator, x, y=None, probe=None, types=None, **options):
    return pytest.param(estimator, x, y, probe, types, options, id=name)


def each(kind, make, targets, x=X, probe=None):
    return [case(f"{kind}-{name}", make(), x, y, probe) for name, y in targets.items()]


CLASSES = {"binary": TWO, "three": THREE, "strings": WORDS}
LINEAR = [
    *each("LogisticRegression", lambda: linear_model.LogisticRegression(), CLASSES),
    *each("SGDClassifier", lambda: linear_model.SGDClassifier(loss="log_loss", random_state=1), CLASSES),
    *each("RidgeClassifier", lambda: linear_model.RidgeClassifier(), CLASSES),
    *each("Perceptron", lambda: linear_model.Perceptron(random_state=1), CLASSES),
    *each("LinearDiscriminantAnalysis", lambda: discriminant_analysis.LinearDiscriminantAnalysis(), CLASSES),
    *each("QuadraticDiscriminantAnalysis", lambda: discriminant_analysis.QuadraticDiscriminantAnalysis(), CLASSES),
    case("LinearRegression", linear_model.LinearRegression(), X, REAL),
    case("LinearRegression-two-targets", linear_model.LinearRegression(), X, MANY),
    case("LinearRegression-double", linear_model.LinearRegression(), X.astype(np.float64), REAL),
    case("Ridge", linear_model.Ridge(), X, REAL),
    case("Lasso", linear_model.Lasso(alpha=0.05), X, REAL),
    case("ElasticNet", linear_model.ElasticNet(alpha=0.05), X, REAL),
    case("BayesianRidge", linear_model.BayesianRidge(), X, REAL),
    case("HuberRegressor", linear_model.HuberRegressor(), X, REAL),
    case("PoissonRegressor", linear_model.PoissonRegressor(), X, np.abs(REAL)),
    case("PLSRegression", cross_decomposition.PLSRegression(), X, REAL),
]
SVMS = [
    *each("LinearSVC", lambda: svm.LinearSVC(random_state=1), CLASSES),
    *[case(f"SVC-{kernel}-{name}", svm.SVC(kernel=kernel), X, y) for kernel in ("linear", "poly", "rbf", "sigmoid")
      for name, y in CLASSES.items()],
    *[case(f"SVC-{kernel}-probability-{name}", svm.SVC(kernel=kernel, probability=True, random_state=1), X, y)
      for kernel in ("rbf", "poly") for name, y in CLASSES.items()],
    *each("NuSVC", lambda: svm.NuSVC(nu=0.2), CLASSES),
    *[case(f"SVR-{kernel}", svm.SVR(kernel=kernel), X, REAL) for kernel in ("linear", "poly", "rbf", "sigmoid")],
    case("LinearSVR", svm.LinearSVR(random_state=1), X, REAL),
    case("NuSVR", svm.NuSVR(), X, REAL),
    case("OneClassSVM", svm.OneClassSVM(), X),
]
TREES = [
    *each("DecisionTreeClassifier", lambda: tree.DecisionTreeClassifier(max_depth=5, random_state=1), CLASSES),
    *each("RandomForestClassifier", lambda: ensemble.RandomForestClassifier(20, max_depth=5, random_state=1), CLASSES),
    *each("ExtraTreesClassifier", lambda: ensemble.ExtraTreesClassifier(20, max_depth=5, random_state=1), CLASSES),
    *each("GradientBoostingClassifier", lambda: ensemble.GradientBoostingClassifier(n_estimators=10, random_state=1), CLASSES),
    *each("HistGradientBoostingClassifier", lambda: ensemble.HistGradientBoostingClassifier(max_iter=10, random_state=1),
          {"binary": TWO, "three": THREE}),
    *each("AdaBoostClassifier", lambda: ensemble.AdaBoostClassifier(n_estimators=8, random_state=1), CLASSES),
    *each("BaggingClassifier", lambda: ensemble.BaggingClassifier(n_estimators=5, random_state=1), CLASSES),
    case("DecisionTreeRegressor", tree.DecisionTreeRegressor(random_state=1), X, REAL),
    case("DecisionTreeRegressor-two-targets", tree.DecisionTreeRegressor(random_state=1), X, MANY),
    case("RandomForestRegressor", ensemble.RandomForestRegressor(20, random_state=1), X, REAL),
    case("RandomForestRegressor-two-targets", ensemble.RandomForestRegressor(20, random_state=1), X, MANY),
    case("ExtraTreesRegressor", ensemble.ExtraTreesRegressor(20, random_state=1), X, REAL),
    case("GradientBoostingRegressor", ensemble.GradientBoostingRegressor(n_estimators=10, random_state=1), X, REAL),
    case("HistGradientBoostingRegressor", ensemble.HistGradientBoostingRegressor(max_iter=10, random_state=1), X, REAL),
    case("HistGradientBoostingRegressor-missing", ensemble.HistGradientBoostingRegressor(max_iter=10, random_state=1), MISSING, REAL,
         MISSING[:50]),
    case("AdaBoostRegressor", ensemble.AdaBoostRegressor(n_estimators=8, random_state=1), X, REAL),
    case("BaggingRegressor", ensemble.BaggingRegressor(n_estimators=5, random_state=1), X, REAL),
    case("IsolationForest", ensemble.IsolationForest(n_estimators=10, random_state=1), X, target_opset={"": 18, "ai.onnx.ml": 3}),
]
OTHERS = [
    *each("KNeighborsClassifier", lambda: neighbors.KNeighborsClassifier(3), CLASSES),
    case("KNeighborsRegressor", neighbors.KNeighborsRegressor(3), X, REAL),
    case("KNeighborsRegressor-distance", neighbors.KNeighborsRegressor(3, weights="distance"), X, REAL),
    case("LocalOutlierFactor", neighbors.LocalOutlierFactor(novelty=True), X),
    *each("GaussianNB", lambda: naive_bayes.GaussianNB(), CLASSES),
    *each("MultinomialNB", lambda: naive_bayes.MultinomialNB(), CLASSES, COUNTS, COUNTS[:40]),
    *each("ComplementNB", lambda: naive_bayes.ComplementNB(), CLASSES, COUNTS, COUNTS[:40]),
    *each("BernoulliNB", lambda: naive_bayes.BernoulliNB(), CLASSES, BINARY, BINARY[:40]),
    case("CategoricalNB", naive_bayes.CategoricalNB(), BINARY.astype(np.int64), THREE, BINARY[:40].astype(np.int64)),
    *each("MLPClassifier", lambda: neural_network.MLPClassifier((9,), max_iter=60, random_state=1), CLASSES),
    case("MLPRegressor", neural_network.MLPRegressor(hidden_layer_sizes=(9,), max_iter=60, random_state=1), X, REAL),
    case("MLPRegressor-tanh", neural_network.MLPRegressor(hidden_layer_sizes=(9,), activation="tanh", max_iter=60, random_state=1), X, MANY),
    case("KMeans", cluster.KMeans(4, n_init=1, random_state=1), X),
    case("MiniBatchKMeans", cluster.MiniBatchKMeans(4, n_init=1, random_state=1), X),
    case("GaussianMixture", mixture.GaussianMixture(2, random_state=1), X),
    case("GaussianProcessRegressor", gaussian_process.GaussianProcessRegressor(
        gaussian_process.kernels.RBF() + gaussian_process.kernels.WhiteKernel()), X.astype(np.float64)[:40], REAL[:40]),
    *each("VotingClassifier-soft", lambda: ensemble.VotingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))], voting="soft", flatten_transform=False), CLASSES),
    *each("VotingClassifier-hard", lambda: ensemble.VotingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3)), ("c", naive_bayes.GaussianNB())],
        flatten_transform=False), {"binary": TWO, "three": THREE}),
    case("VotingRegressor", ensemble.VotingRegressor([("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor())]), X, REAL),
    *each("StackingClassifier", lambda: ensemble.StackingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))], cv=2), CLASSES),
    case("StackingRegressor", ensemble.StackingRegressor([("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor())], cv=2), X, REAL),
    *each("CalibratedClassifierCV-sigmoid", lambda: calibration.CalibratedClassifierCV(linear_model.RidgeClassifier(), cv=2), CLASSES),
    *each("CalibratedClassifierCV-isotonic", lambda: calibration.CalibratedClassifierCV(
        naive_bayes.GaussianNB(), method="isotonic", cv=2), {"binary": TWO, "three": THREE}),
    *each("OneVsRestClassifier", lambda: multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), CLASSES),
    *each("OneVsOneClassifier", lambda: multiclass.OneVsOneClassifier(linear_model.LogisticRegression()), {"three": THREE}),
    case("MultiOutputRegressor", multioutput.MultiOutputRegressor(linear_model.Ridge()), X, MANY),
    case("MultiOutputClassifier", multioutput.MultiOutputClassifier(linear_model.LogisticRegression()), X, np.stack([TWO, THREE], 1)),
]
TRANSFORMS = [
    case("StandardScaler", preprocessing.StandardScaler(), X),
    case("StandardScaler-double", preprocessing.StandardScaler(), X.astype(np.float64)),
    case("MinMaxScaler", preprocessing.MinMaxScaler(), X),
    case("MinMaxScaler-clip", preprocessing.MinMaxScaler(clip=True), X),
    case("RobustScaler", preprocessing.RobustScaler(), X),
    case("MaxAbsScaler", preprocessing.MaxAbsScaler(), X),
    *[case(f"Normalizer-{norm}", preprocessing.Normalizer(norm), X) for norm in ("l1", "l2", "max")],
    case("Binarizer", preprocessing.Binarizer(threshold=0.3), X),
    case("KBinsDiscretizer", preprocessing.KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf"), X),
    case("KBinsDiscretizer-onehot", preprocessing.KBinsDiscretizer(
        4, encode="onehot-dense", quantile_method="averaged_inverted_cdf"), X),
    case("PolynomialFeatures", preprocessing.PolynomialFeatures(2), X),
    case("PowerTransformer", preprocessing.PowerTransformer(), X),
    case("FunctionTransformer", preprocessing.FunctionTransformer(), X),
    case("OneHotEncoder-strings", preprocessing.OneHotEncoder(handle_unknown="ignore"), NAMES, probe=NAMES[:30]),
    case("OneHotEncoder-dense", preprocessing.OneHotEncoder(sparse_output=False, drop="first"), NAMES, probe=NAMES[:30]),
    case("OneHotEncoder-integers", preprocessing.OneHotEncoder(), BINARY.astype(np.int64), probe=BINARY[:30].astype(np.int64)),
    case("OrdinalEncoder-strings", preprocessing.OrdinalEncoder(), NAMES, probe=NAMES[:30]),
    case("OrdinalEncoder-integers", preprocessing.OrdinalEncoder(), BINARY.astype(np.int64), probe=BINARY[:30].astype(np.int64)),
    case("LabelEncoder-strings", preprocessing.LabelEncoder(), WORDS.astype(object), probe=WORDS[:30].astype(object)),
    case("LabelEncoder-integers", preprocessing.LabelEncoder(), THREE + 5, probe=THREE[:30] + 5),
    case("LabelBinarizer", preprocessing.LabelBinarizer(), THREE, probe=THREE[:30]),
    *[case(f"SimpleImputer-{strategy}", impute.SimpleImputer(strategy=strategy), MISSING, probe=MISSING[:50])
      for strategy in ("mean", "median", "most_frequent", "constant")],
    case("KNNImputer", impute.KNNImputer(n_neighbors=3), MISSING, probe=MISSING[:20]),
    case("PCA", decomposition.PCA(3), X),
    case("PCA-whiten", decomposition.PCA(3, whiten=True), X),
    case("TruncatedSVD", decomposition.TruncatedSVD(3, random_state=1), X),
    case("IncrementalPCA", decomposition.IncrementalPCA(3), X),
    case("KernelPCA", decomposition.KernelPCA(3, kernel="rbf"), X.astype(np.float64)),
    case("SelectKBest", feature_selection.SelectKBest(k=3), X, TWO),
    case("VarianceThreshold", feature_selection.VarianceThreshold(), X),
    case("RFE", feature_selection.RFE(linear_model.LogisticRegression(), n_features_to_select=3), X, TWO),
    case("DictVectorizer", feature_extraction.DictVectorizer(sparse=False), [{"a": 1.0, "b": 2.0}, {"c": 3.0}],
         probe={"b": 4.0, "z": 9.0, "a": 0.5}, types="dict"),
    case("CountVectorizer", feature_extraction.text.CountVectorizer(lowercase=False), TEXTS, probe=TEXTS[:30].astype(object), types="text"),
    case("CountVectorizer-bigrams", feature_extraction.text.CountVectorizer(lowercase=False, ngram_range=(1, 2)), TEXTS,
         probe=TEXTS[:30].astype(object), types="text"),
    case("TfidfVectorizer", feature_extraction.text.TfidfVectorizer(lowercase=False), TEXTS, probe=TEXTS[:30].astype(object), types="text"),
    case("TfidfTransformer", feature_extraction.text.TfidfTransformer(), COUNTS, probe=COUNTS[:30]),
]
PIPELINES = [
    case("Pipeline-scaler-pca-logistic", pipeline.make_pipeline(
        preprocessing.StandardScaler(), decomposition.PCA(4), linear_model.LogisticRegression()), X, WORDS),
    case("Pipeline-imputer-forest", pipeline.make_pipeline(
        impute.SimpleImputer(), ensemble.RandomForestClassifier(10, max_depth=4, random_state=1)), MISSING, THREE, MISSING[:50]),
    case("Pipeline-text-naive-bayes", pipeline.make_pipeline(
        feature_extraction.text.TfidfVectorizer(lowercase=False), naive_bayes.MultinomialNB()), TEXTS, THREE, TEXTS[:30].astype(object), "text"),
    case("FeatureUnion", pipeline.FeatureUnion([("a", preprocessing.StandardScaler()), ("b", preprocessing.MinMaxScaler())]), X),
    case("ColumnTransformer", pipeline.make_pipeline(compose.ColumnTransformer([
        ("n", preprocessing.StandardScaler(), [0, 1, 2]), ("m", preprocessing.MinMaxScaler(), [3, 4])], remainder="passthrough"),
        linear_model.Ridge()), X, REAL),
    case("ColumnTransformer-strings", pipeline.make_pipeline(compose.ColumnTransformer([
        ("one", preprocessing.OneHotEncoder(handle_unknown="ignore"), [0]), ("ordinal", preprocessing.OrdinalEncoder(), [1])]),
        linear_model.LogisticRegression()), NAMES, THREE, NAMES[:30]),
    case("TransformedTargetRegressor-bagging", ensemble.BaggingRegressor(
        pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVR()), n_estimators=3, random_state=1), X, REAL),
]
# Of the estimators that skl2onnx knows, those with nothing to compare: what fails, and where.
NOT_COMPARED = {
    "DecisionTreeRegressor on float64": "skl2onnx declares a float64 output of TreeEnsembleRegressor, which gives float32; "
                                        "ONNX Runtime refuses the file",
    "GaussianProcessClassifier": "skl2onnx writes com.microsoft.Solve, which no runtime has",
    "Nystroem": "skl2onnx has no converter",
    "RadiusNeighborsRegressor": "ONNX Runtime stops at the index -1 that the export makes for rows without a neighbor",
    "lowercase=True of text vectorizers": "ONNX Runtime needs the locale en_US.UTF-8; compared with scikit-learn below",
}


def tensor_types(x, kind):
    if kind == "dict":
        return [("x", DictionaryType(StringTensorType([1]), FloatTensorType([1])))]
    if kind == "text" or (x.ndim == 1 and x.dtype == object):
        return [("x", StringTensorType([None, 1] if kind == "text" else [None]))]
    width = list(x.shape[1:])
    types = {np.dtype(np.float32): FloatTensorType, np.dtype(np.float64): DoubleTensorType, np.dtype(np.int64): Int64TensorType,
             np.dtype(object): StringTensorType}
    return [("x", types[x.dtype]([None, *width]))]


def export(estimator, x, kind, options):
    settings = {"target_opset": {"": 21, "ai.onnx.ml": 3}, **options}
    initial = tensor_types(np.asarray(x) if kind != "dict" else x, kind)
    return to_onnx(estimator, initial_types=initial, **settings)


def feeds_of(x, kind):
    if kind == "dict":
        return {"x": x}, {"x.keys": np.array(list(x), object), "x.values": np.array(list(x.values()), np.float32)}
    x = np.asarray(x)
    if kind == "text":
        x = x.reshape(-1, 1)
    return {"x": x}, {"x": x}


def plain_numbers(make_node):
    """skl2onnx 1.20 gives numpy's booleans as integers, which onnx 1.23 no longer takes."""
    def wrapped(*args, **attributes):
        for name, value in attributes.items():
            if isinstance(value, list) and any(isinstance(v, (bool, np.bool_)) for v in value):
                attributes[name] = [int(v) for v in value]
        return make_node(*args, **attributes)
    return wrapped


@pytest.fixture(autouse=True)
def exporter(monkeypatch):
    monkeypatch.setattr(_container, "make_node", plain_numbers(_container.make_node))


def without_maps(values):
    """What ZipMap makes, a list of maps, as the tensor that Tenon gives."""
    return [np.array([list(row.values()) for row in v], np.float32) if isinstance(v, list) and v and isinstance(v[0], dict) else v
            for v in values]


def compare_with_onnxruntime(model, feeds, ours, path):
    path.write_bytes(model.SerializeToString())
    want = without_maps(onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds))
    with library.open_model(path, cache_dir="none", threads=2) as session:
        got = session.run(ours)
        names = [info["name"] for info in session.outputs]
    assert len(got) == len(want)
    for name, g, w in zip(names, got, want):
        compare.assert_equal(g, w, name, RTOL, ATOL)
    return names


@pytest.mark.parametrize("estimator, x, y, probe, types, options", [*LINEAR, *SVMS, *TREES, *OTHERS, *TRANSFORMS, *PIPELINES])
def test_export_equals_onnxruntime(estimator, x, y, probe, types, options, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = estimator.fit(x) if y is None else estimator.fit(x, y)
        model = export(fitted, x, types, options)
    probe = PROBE.astype(x.dtype)[:, :np.shape(x)[1]] if probe is None else probe
    feeds, ours = feeds_of(probe, types)
    compare_with_onnxruntime(model, feeds, ours, tmp_path / "model.onnx")


def test_zipmap_output_is_the_tensor_with_its_labels(tmp_path):
    model = linear_model.LogisticRegression().fit(X, WORDS)
    with_maps, without = tmp_path / "maps.onnx", tmp_path / "plain.onnx"
    with_maps.write_bytes(export(model, X, None, {}).SerializeToString())
    without.write_bytes(export(model, X, None, {"options": {"zipmap": False}}).SerializeToString())
    with library.open_model(with_maps, cache_dir="none") as a, library.open_model(without, cache_dir="none") as b:
        assert json.loads(a.metadata("class_labels.output_probability")) == ["maybe", "no", "yes"]
        assert b.metadata("class_labels.probabilities") is None
        maps, plain = a.run({"x": PROBE}), b.run({"x": PROBE})
    assert list(maps[0]) == list(model.predict(PROBE))
    np.testing.assert_array_equal(maps[1], plain[1])


@pytest.mark.parametrize("vectorizer", [feature_extraction.text.CountVectorizer, feature_extraction.text.TfidfVectorizer])
def test_lowercase_text_equals_scikit_learn(vectorizer, tmp_path):
    fitted = vectorizer().fit(TEXTS)
    path = tmp_path / "model.onnx"
    path.write_bytes(export(fitted, TEXTS, "text", {}).SerializeToString())
    probe = np.array([["The QUICK brown Fox"], ["LAZY dog, lazy"]], object)
    with library.open_model(path, cache_dir="none") as session:
        got = session.run({"x": probe})[0]
    np.testing.assert_allclose(got, fitted.transform(probe[:, 0]).toarray(), rtol=RTOL, atol=ATOL)
