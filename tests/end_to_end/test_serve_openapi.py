"""GET /openapi.json: valid, and complete."""
import re

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from end_to_end.serving import serve
from support import build_model, paths


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    build_model.small_net(folder / "net.onnx")
    with serve("--models", folder) as served:
        yield served


def routes():
    """(method, path) of every row of the table."""
    text = (paths.ROOT / "src/server/endpoints.inc").read_text()
    return re.findall(r'^ENDPOINT\("(\w+)", "([^"]+)"', text, re.M)


def test_description_is_valid_and_complete(server):
    status, document = server.json("/openapi.json")
    assert status == 200
    OpenAPIV31SpecValidator(document).validate()
    table = routes()
    assert len(table) > 30 and len(set(table)) == len(table)
    assert {(m.lower(), p) for m, p in table} == {(m, p) for p, methods in document["paths"].items() for m in methods}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["summary"] and operation["responses"]["200"]
            assert {p["name"] for p in operation.get("parameters", [])} == set(re.findall(r"\{(\w+)\}", path))


def test_answers_are_as_described(server):
    """Every GET that takes no parameter but the model, against its schema."""
    import jsonschema
    document = server.json("/openapi.json")[1]
    checked = 0
    for path, methods in document["paths"].items():
        path = path.replace("{model}", "net").replace("{version}", "1")
        content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {}).get("application/json")
        if content is None or "{" in path:
            continue
        status, answer = server.json(path)
        assert status == 200, path
        jsonschema.Draft202012Validator({**content["schema"], "components": document["components"]}).validate(answer)
        checked += 1
    assert checked > 10
    ask = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
    schemas = document["components"]["schemas"]
    for schema, value in (("InferRequest", ask), ("InferResponse", server.json("/v2/models/net/infer", ask)[1]),
                          ("Error", server.json("/v2/models/nothing")[1])):
        jsonschema.Draft202012Validator({**schemas[schema], "components": document["components"]}).validate(value)
