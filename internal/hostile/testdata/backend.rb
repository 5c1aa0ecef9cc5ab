# A login server as people write them with Rack, on WEBrick; see backend.js.
require 'json'
require 'zlib'
require 'rack'
require 'webrick'
require 'digest'
$stdout.sync = true
LOGIN = %r{\A/(login|login\.php|hosted|in/[a-z]+)/?\z}.freeze

def attempt
  yield
rescue StandardError
  nil
end

ROUTERS = [
  ->(r) { LOGIN.match?(r.path_info) },
  ->(r) { LOGIN.match?(Rack::Utils.unescape_path(r.path_info)) },
  ->(r) { LOGIN.match?(Rack::Utils.clean_path_info(Rack::Utils.unescape_path(r.path_info))) },
  ->(r) { LOGIN.match?(URI(r.fullpath).path) }
].freeze
READERS = {
  'json' => ->(_, b) { Hash(JSON.parse(b.dup.force_encoding('UTF-8')))['username'] },
  'rack params' => ->(r, _) { r.params['username'] },
  'rack form' => ->(r, _) { r.POST['username'] },
  'rack query' => ->(r, _) { r.GET['username'] },
  'cgi' => ->(_, b) { URI.decode_www_form(b.dup.force_encoding('UTF-8')).to_h['username'] },
  'inflated json' => ->(r, b) { r.get_header('HTTP_CONTENT_ENCODING') =~ /gzip/i && JSON.parse(Zlib.gunzip(b))['username'] },
  'header' => ->(r, _) { r.get_header('HTTP_X_USER') },
  'cookie' => ->(r, _) { r.cookies['who'] },
  'path' => ->(r, _) { Rack::Utils.unescape_path(r.path_info[%r{\A/user/([^/]+)/?\z}, 1]) },
  'basic' => ->(r, _) { a = Rack::Auth::Basic::Request.new(r.env); a.provided? && a.basic? && a.username }
}.freeze

app = lambda do |env|
  r = Rack::Request.new(env)
  body = r.body.read.b
  r.body.rewind
  names = {}
  READERS.each do |name, read|
    value = attempt { read.call(r, body) }
    value = value.to_s if value.is_a?(Numeric) || value == true
    names[name] = value.dup.force_encoding('UTF-8').scrub("\ufffd") if value.is_a?(String) && !value.empty?
  end
  login = ROUTERS.any? { |route| attempt { route.call(r) } }
  login &&= attempt { r.host.downcase.chomp('.') } == 'auth.test' if r.path_info =~ /hosted/i
  line = JSON.generate('id' => env['HTTP_X_REQUEST_ID'].to_s, 'login' => login, 'method' => r.request_method.upcase,
                       'target' => r.fullpath.b.force_encoding('UTF-8').scrub, 'length' => body.bytesize, 'sum' => Digest::SHA256.hexdigest(body), 'names' => names)
  $stdout.write("#{line}\n")
  [200, { 'Content-Type' => 'application/json', 'X-Seen' => env['HTTP_X_REQUEST_ID'] || 'nobody', 'Content-Length' => line.bytesize.to_s }, [line]]
end
Thread.new do
  $stdin.read
  exit!
end
Rack::Handler::WEBrick.run(Rack::MethodOverride.new(app), Host: '127.0.0.1', Port: 0, AccessLog: [], Logger: WEBrick::Log.new(File::NULL),
                                                             AcceptCallback: ->(c) { c.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) }) do |server|
  puts JSON.generate('port' => server.listeners[0].addr[1])
end
