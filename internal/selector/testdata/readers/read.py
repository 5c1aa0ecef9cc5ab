"""What Python reads. Standard input: one JSON object a line {type, query, body}, body as one character a byte. Output: one
JSON object a line, reader to the username it reads."""
import io, json, sys, warnings
warnings.simplefilter("ignore")
import urllib.parse, xml.etree.ElementTree as ET
try:
    import cgi
except ImportError:
    cgi = None

def field_storage(case, body):
    if cgi is None or not case["type"]:
        return None
    env = {"REQUEST_METHOD": "POST", "CONTENT_TYPE": case["type"], "CONTENT_LENGTH": str(len(body)), "QUERY_STRING": case["query"]}
    form = cgi.FieldStorage(io.BytesIO(body), environ=env, headers={"content-type": case["type"], "content-length": str(len(body))})
    return form.getfirst("username")

def xml_text(body):
    for e in ET.fromstring(body).iter():
        if e.tag.split("}")[-1] == "username":
            return e.text

READERS = {
    "python json": lambda c, b: json.loads(b)["username"],
    "python json text": lambda c, b: json.loads(b.decode("utf-8"))["username"],
    "python json first": lambda c, b: json.JSONDecoder().raw_decode(b.decode("utf-8").lstrip())[0]["username"],
    "python form": lambda c, b: urllib.parse.parse_qs(b.decode("latin-1"))["username"][-1],
    "python form first": lambda c, b: urllib.parse.parse_qs(b.decode("latin-1"), encoding="utf-8", errors="ignore")["username"][0],
    "python semicolons": lambda c, b: urllib.parse.parse_qs(b.decode("latin-1").replace(";", "&"))["username"][0],
    "python cgi": field_storage,
    "python xml": lambda c, b: xml_text(b),
    "python query": lambda c, b: urllib.parse.parse_qs(c["query"])["username"][0],
}
for line in sys.stdin:
    case, out = json.loads(line), {}
    body = case["body"].encode("latin-1")
    for name, read in READERS.items():
        try:
            value = read(case, body)
        except Exception:
            continue
        if isinstance(value, (str, int, float)) and value != "":
            out[name] = str(value).lower() if isinstance(value, bool) else str(value)
    print(json.dumps(out))
