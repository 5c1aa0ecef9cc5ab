#!/usr/bin/env python3
"""Makes readers.json beside this folder anew: what real parsers read out of its bodies. Add a case there, then run this.

Wants python3, node with the packages qs and busboy (NODE_PATH), php and ruby with rack; a reader that is not there is
left out with a warning. Nothing of this is needed to run the tests."""
import http.client, json, os, shutil, socket, subprocess, sys, time
HERE = os.path.dirname(os.path.abspath(__file__))

def pipe(command, cases):
    if not shutil.which(command[0]):
        print("without " + command[0], file=sys.stderr)
        return [{} for _ in cases]
    text = "".join(json.dumps(c) + "\n" for c in cases)
    out = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8")
    lines = out.stdout.split("\n")[:-1]
    if len(lines) != len(cases):
        sys.exit("%s: %d answers to %d cases\n%s" % (command[0], len(lines), len(cases), out.stderr[-2000:]))
    return [json.loads(l) for l in lines]

def php(cases):
    if not shutil.which("php"):
        print("without php", file=sys.stderr)
        return [{} for _ in cases]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = subprocess.Popen(["php", "-d", "html_errors=0", "-d", "display_errors=0", "-S", "127.0.0.1:%d" % port, os.path.join(HERE, "read.php")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        out = []
        for c in cases:
            conn = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            headers = {"Content-Type": c["type"]} if c["type"] else {}
            conn.request("POST", "/" + ("?" + c["query"] if c["query"] else ""), c["body"].encode("latin-1"), headers)
            answer = conn.getresponse().read()
            try:
                out.append(json.loads(answer) or {})
            except ValueError:
                out.append({})
            conn.close()
        return out
    finally:
        server.terminate()
        server.wait()

def main(source, target):
    cases = json.load(open(source, encoding="utf-8"))
    for case in cases:
        case.pop("readers", None)
    read = [pipe([sys.executable, os.path.join(HERE, "read.py")], cases), pipe(["node", os.path.join(HERE, "read.js")], cases),
            php(cases), pipe(["ruby", os.path.join(HERE, "read.rb")], cases)]
    for i, case in enumerate(cases):
        case["readers"] = {}
        for answers in read:
            case["readers"].update(answers[i])
    with open(target, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, sort_keys=True) for c in cases) + "\n]\n")

if __name__ == "__main__":
    data = os.path.dirname(HERE)
    main(*(sys.argv[1:] or [os.path.join(data, "readers.json"), os.path.join(data, "readers.json")]))
