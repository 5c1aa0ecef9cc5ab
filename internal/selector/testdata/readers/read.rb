# What Ruby reads; input and output as in read.py. Needs rack.
require 'json'
require 'stringio'
require 'rack'
STDIN.each_line do |line|
  c = JSON.parse(line)
  body = c['body'].encode('ISO-8859-1').b
  out = {}
  readers = {
    'ruby json' => -> { Hash(JSON.parse(body.dup.force_encoding('UTF-8')))['username'] },
    'ruby rack' => lambda {
      env = { 'REQUEST_METHOD' => 'POST', 'QUERY_STRING' => c['query'], 'CONTENT_LENGTH' => body.bytesize.to_s, 'rack.input' => StringIO.new(body.dup) }
      env['CONTENT_TYPE'] = c['type'] unless c['type'].empty?
      Rack::Request.new(env).params['username']
    }
  }
  readers.each do |name, read|
    value = begin
      read.call
    rescue StandardError
      nil
    end
    value = value.to_s if value.is_a?(Numeric) || value == true || value == false
    next unless value.is_a?(String) && !value.empty?

    out[name] = value.dup.force_encoding('UTF-8').scrub("\ufffd")
  end
  puts JSON.generate(out)
end
