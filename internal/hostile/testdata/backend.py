"""A login server as people write them in Python; see backend.js. With werkzeug and orjson, if they are installed, it reads and
routes as Flask does too."""
import base64, email, gzip, hashlib, io, json, os, posixpath, re, sys, threading, urllib.parse, warnings, zlib
import xml.etree.ElementTree as ET
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
warnings.simplefilter("ignore")
try:
    import cgi
except ImportError:
    cgi = None
try:
    import orjson
except ImportError:
    orjson = None
try:
    from werkzeug.routing import Map, Rule
    from werkzeug.wrappers import Request
    FLASK = Map([Rule("/login"), Rule("/login.php"), Rule("/hosted"), Rule("/user/<string:name>"), Rule("/in/<string:kind>")], strict_slashes=False)
except ImportError:
    Request = None
sys.stdin = open(0, "rb", buffering=0)

LOGIN = re.compile(r"/(login|login\.php|hosted|in/[a-z]+)/?\Z")
PRINTING = threading.Lock()

def flask_routes(path):
    if Request is None:
        return False
    try:
        return FLASK.bind("localhost").match(path, method="POST") is not None
    except Exception:
        return False

ROUTERS = [
    lambda t: LOGIN.match(urllib.parse.urlsplit(t).path),
    lambda t: LOGIN.match(urllib.parse.unquote(urllib.parse.urlsplit(t).path)),
    lambda t: LOGIN.match(posixpath.normpath(urllib.parse.unquote(t.split("?", 1)[0].split("#", 1)[0]))),
    lambda t: LOGIN.match(urllib.parse.urlparse(t).path),
    lambda t: flask_routes(urllib.parse.unquote(urllib.parse.urlsplit(t).path)),
    lambda t: flask_routes(urllib.parse.unquote(t.split("?", 1)[0])),
]

def environ(h, body):
    path, _, query = h.path.partition("?")
    env = {"REQUEST_METHOD": "POST", "PATH_INFO": urllib.parse.unquote(path, "latin-1"), "QUERY_STRING": query, "SERVER_NAME": "x", "SERVER_PORT": "80",
           "wsgi.input": io.BytesIO(body), "wsgi.url_scheme": "http", "CONTENT_LENGTH": str(len(body))}
    if h.headers.get("Content-Type"):
        env["CONTENT_TYPE"] = h.headers["Content-Type"]
    if h.headers.get("Cookie"):
        env["HTTP_COOKIE"] = "; ".join(h.headers.get_all("Cookie"))
    if h.headers.get("Authorization"):
        env["HTTP_AUTHORIZATION"] = h.headers["Authorization"]
    return env

def field_storage(h, body):
    form = cgi.FieldStorage(io.BytesIO(body), environ=environ(h, body), headers={"content-type": h.headers["Content-Type"], "content-length": str(len(body))})
    return form.getfirst("username")

def from_mail(h, body):
    for part in email.message_from_bytes(b"Content-Type: " + h.headers["Content-Type"].encode("latin-1") + b"\r\n\r\n" + body).get_payload():
        if part.get_param("name", header="content-disposition") == "username" and not part.get_filename():
            return part.get_payload(decode=True).decode().strip()

def xml_text(body):
    for e in ET.fromstring(body).iter():
        if e.tag.split("}")[-1] == "username":
            return e.text

def inflated(h, body):
    coding = h.headers["Content-Encoding"].strip().lower()
    bits = {"gzip": 31, "x-gzip": 31, "deflate": 15}[coding]
    try:
        return zlib.decompressobj(bits).decompress(body, 1 << 20)
    except zlib.error:
        return zlib.decompressobj(-15).decompress(body, 1 << 20)

def basic(h):
    scheme, _, rest = h.headers["Authorization"].partition(" ")
    if scheme.lower() == "basic":
        return base64.b64decode(rest).decode("utf-8").split(":", 1)[0]

READERS = {
    "json": lambda h, b: json.loads(b)["username"],
    "json text": lambda h, b: json.loads(b.decode("utf-8"))["username"],
    "json latin": lambda h, b: json.loads(b.decode("latin-1"))["username"],
    "json stripped": lambda h, b: json.loads(b.decode("utf-8").strip())["username"],
    "json latin stripped": lambda h, b: json.loads(b.decode("latin-1").strip())["username"],
    "xml stripped": lambda h, b: xml_text(b.decode("utf-8").strip()),
    "json first": lambda h, b: json.JSONDecoder().raw_decode(b.decode("utf-8").lstrip())[0]["username"],
    "orjson": lambda h, b: orjson.loads(b)["username"],
    "form": lambda h, b: urllib.parse.parse_qs(b.decode("latin-1"))["username"][-1],
    "form first": lambda h, b: urllib.parse.parse_qs(b.decode("utf-8"), errors="ignore")["username"][0],
    "semicolons": lambda h, b: urllib.parse.parse_qs(b.decode("latin-1").replace(";", "&"))["username"][0],
    "cgi": field_storage,
    "mail": from_mail,
    "xml": lambda h, b: xml_text(b),
    "query": lambda h, b: urllib.parse.parse_qs(h.path.partition("?")[2])["username"][0],
    "werkzeug form": lambda h, b: Request(environ(h, b)).form["username"],
    "werkzeug last": lambda h, b: Request(environ(h, b)).form.getlist("username")[-1],
    "werkzeug values": lambda h, b: Request(environ(h, b)).values["username"],
    "werkzeug json": lambda h, b: Request(environ(h, b)).get_json()["username"],
    "werkzeug forced": lambda h, b: Request(environ(h, b)).get_json(force=True)["username"],
    "inflated json": lambda h, b: json.loads(inflated(h, b))["username"],
    "inflated form": lambda h, b: urllib.parse.parse_qs(inflated(h, b).decode("latin-1"))["username"][0],
    "header": lambda h, b: h.headers["X-User"],
    "header last": lambda h, b: h.headers.get_all("X-User")[-1],
    "cookie": lambda h, b: SimpleCookie(h.headers["Cookie"])["who"].value,
    "werkzeug cookie": lambda h, b: Request(environ(h, b)).cookies["who"],
    "path": lambda h, b: urllib.parse.unquote(re.match(r"/user/([^/]+)/?\Z", urllib.parse.urlsplit(h.path).path)[1]),
    "werkzeug path": lambda h, b: FLASK.bind("localhost").match(urllib.parse.unquote(h.path.split("?", 1)[0]), method="POST")[1]["name"],
    "basic": lambda h, b: basic(h),
    "werkzeug basic": lambda h, b: Request(environ(h, b)).authorization.username,
}

def attempt(read, *args):
    try:
        return read(*args)
    except Exception:
        return None

class Login(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def setup(self):
        super().setup()
        self.connection.setsockopt(6, 1, 1)  # TCP_NODELAY

    def chunked(self):
        body = b""
        while True:
            size = int(self.rfile.readline(4096).split(b";")[0], 16)
            if size == 0:
                while self.rfile.readline(4096).strip():
                    pass
                return body
            body += self.rfile.read(size)
            self.rfile.readline()

    def handle_any(self):
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            body = self.chunked()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        names = {}
        for name, read in READERS.items():
            value = attempt(read, self, body)
            if isinstance(value, (str, int, float)) and value != "":
                names[name] = str(value).lower() if isinstance(value, bool) else str(value)
        host = (self.headers.get("Host") or "").split(":")[0].lower().rstrip(".")
        login = any(attempt(r, self.path) for r in ROUTERS) and ("hosted" not in self.path.lower() or host == "auth.test")
        override = self.headers.get("X-HTTP-Method-Override") or (attempt(lambda: urllib.parse.parse_qs(self.path.partition("?")[2])["_method"][0]))
        line = json.dumps({"id": self.headers.get("X-Request-Id") or "", "login": bool(login), "method": (override or self.command).strip().upper(), "target": self.path,
                           "length": len(body), "sum": hashlib.sha256(body).hexdigest(), "names": names})
        with PRINTING:
            print(line, flush=True)
        line = line.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Seen", self.headers.get("X-Request-Id") or "nobody")
        self.send_header("Content-Length", str(len(line)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(line)

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.handle_any
        raise AttributeError(name)

def leave():
    while sys.stdin.read(1):
        pass
    os._exit(0)

class Server(ThreadingHTTPServer):
    request_queue_size = 128
    def handle_error(self, request, address):
        pass

server = Server(("127.0.0.1", 0), Login)
print(json.dumps({"port": server.server_address[1]}), flush=True)
threading.Thread(target=leave, daemon=True).start()
server.serve_forever()
