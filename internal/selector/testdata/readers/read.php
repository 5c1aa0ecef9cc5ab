<?php // What PHP reads, served by `php -S`: the answer is one JSON object as in read.py.
$out = [];
$body = file_get_contents('php://input');
$take = function ($name, $value) use (&$out) {
    if (is_string($value) && $value !== '') {
        $out[$name] = $value;
    } elseif (is_int($value) || is_float($value) || is_bool($value)) {
        $out[$name] = var_export($value, true);
    }
};
$take('php post', $_POST['username'] ?? null);
$take('php request', $_REQUEST['username'] ?? null);
$take('php json', json_decode($body, true)['username'] ?? null);
parse_str($body, $parsed);
$take('php parse_str', $parsed['username'] ?? null);
$doc = @simplexml_load_string($body);
if ($doc && ($found = $doc->xpath('//*[local-name()="username"]'))) {
    $take('php xml', (string) $found[0]);
}
header('Content-Type: application/json');
echo json_encode($out, JSON_INVALID_UTF8_SUBSTITUTE | JSON_FORCE_OBJECT);
