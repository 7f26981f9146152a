"""nginx and HAProxy with the configurations that deploy/ ships, before servers of ours."""
import contextlib
import pathlib
import shutil
import socket
import subprocess
import time

from support import paths

NAMES = ("nginx", "haproxy")
SHIPPED = {
    "nginx": ("nginx.conf", 8080, 8081, lambda conf: ["nginx", "-c", str(conf), "-g", "daemon off;"]),
    "haproxy": ("haproxy.cfg", 8090, 8091, lambda conf: ["haproxy", "-f", str(conf)]),
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def balancer(name, servers, folder):
    """The shipped configuration with the addresses of two `servers`; gives those of its HTTP and its gRPC front, once it takes connections."""
    if shutil.which(name) is None:
        raise FileNotFoundError(f"{name} is missing; run scripts/install_dependencies test")
    file, http, grpc, command = SHIPPED[name]
    fronts = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    changes = {f"127.0.0.1:{http}": fronts[0], f"127.0.0.1:{grpc}": fronts[1], "/tmp/tenon-nginx": f"{folder}/nginx"}
    for server, number in zip(servers, (0, 10)):
        changes |= {f"127.0.0.1:{8000 + number}": server.http, f"127.0.0.1:{8001 + number}": server.grpc,
                    f"port {8000 + number}": f"port {server.http.rsplit(':', 1)[1]}"}
    text = (paths.ROOT / "deploy" / file).read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    conf = pathlib.Path(folder) / file
    conf.parent.chmod(0o755)   # nginx's workers keep large bodies there, as another user
    conf.write_text(text)
    process = subprocess.Popen(command(conf), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        host, port = fronts[0].split(":")
        until = time.time() + 20
        while time.time() < until:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=5):
                break
            time.sleep(0.05)
        yield fronts
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
