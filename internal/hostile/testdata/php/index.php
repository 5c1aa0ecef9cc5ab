<?php // A login server as people write them in PHP; see ../backend.js. `php -S` sends here whatever is no file.
ini_set('display_errors', '0');
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$routes = function ($path) {
    return is_string($path) && preg_match('~^/(login|login\.php|hosted|in/[a-z]+)/?$~D', $path) === 1;
};
$login = basename($_SERVER['SCRIPT_NAME']) === 'login.php' || $routes($path) || $routes(rawurldecode((string) $path)) || $routes($_SERVER['PATH_INFO'] ?? null)
    || $routes(urldecode(strtok($_SERVER['REQUEST_URI'], '?'))) || $routes($_SERVER['SCRIPT_NAME']);
if ($login && stripos($_SERVER['REQUEST_URI'], 'hosted') !== false) {
    $login = rtrim(strtolower(explode(':', $_SERVER['HTTP_HOST'] ?? '')[0]), '.') === 'auth.test';
}
$body = file_get_contents('php://input');
$names = [];
$take = function ($reader, $read) use (&$names) {
    try {
        $value = $read();
    } catch (Throwable $e) {
        return;
    }
    if (is_string($value) && $value !== '') {
        $names[$reader] = $value;
    } elseif (is_int($value) || is_float($value) || is_bool($value)) {
        $names[$reader] = var_export($value, true);
    }
};
$take('post', fn () => $_POST['username'] ?? null);
$take('request', fn () => $_REQUEST['username'] ?? null);
$take('get', fn () => $_GET['username'] ?? null);
$take('json', fn () => json_decode($body, true)['username'] ?? null);
$take('json object', fn () => json_decode($body)->username ?? null);
$take('parse_str', function () use ($body) { parse_str($body, $parsed); return $parsed['username'] ?? null; });
$take('xml', function () use ($body) {
    $found = @simplexml_load_string($body)->xpath('//*[local-name()="username"]');
    return $found ? (string) $found[0] : null;
});
$take('inflated json', fn () => json_decode(@gzdecode($body, 1 << 20), true)['username'] ?? null);
$take('header', fn () => $_SERVER['HTTP_X_USER'] ?? null);
$take('cookie', fn () => $_COOKIE['who'] ?? null);
$take('path', fn () => preg_match('~^/user/([^/]+)/?$~D', parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH), $m) ? rawurldecode($m[1]) : null);
$take('basic', fn () => $_SERVER['PHP_AUTH_USER'] ?? null);
$method = $_SERVER['HTTP_X_HTTP_METHOD_OVERRIDE'] ?? $_REQUEST['_method'] ?? $_SERVER['REQUEST_METHOD'];
$line = json_encode([
    'id' => $_SERVER['HTTP_X_REQUEST_ID'] ?? '', 'login' => $login, 'method' => strtoupper(is_string($method) ? $method : ''), 'target' => $_SERVER['REQUEST_URI'],
    'length' => strlen($body), 'sum' => hash('sha256', $body), 'names' => (object) $names,
], JSON_INVALID_UTF8_SUBSTITUTE);
file_put_contents('php://stdout', $line . "\n");
header('Content-Type: application/json');
header('X-Seen: ' . ($_SERVER['HTTP_X_REQUEST_ID'] ?? 'nobody'));
header('Content-Length: ' . strlen($line));
echo $line;
