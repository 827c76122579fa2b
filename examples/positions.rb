# A prompt of text, images and a video: its position ids, their rotary table, a rotated query.
# Run, beside prompt.json: ruby positions.rb http://127.0.0.1:8000
require "json"
require "net/http"

SERVER = ARGV.fetch(0, "http://127.0.0.1:8000")
# Qwen2.5-VL: 128 channels a head, of which t, h and w turn 16, 24 and 24 pairs.
ROPE = "head_dim=128&rope_theta=1000000&mrope_section=16,24,24"
BINARY = "application/vnd.safetensors"

# Return the answer to a body, which must not be refused.
def post(path, body, type)
  answer = Net::HTTP.post(URI(SERVER + path), body, "Content-Type" => type)
  answer.is_a?(Net::HTTPOK) ? answer.body.b : abort("#{path}: #{answer.code} #{answer.body}")
end

# Return the header and the numbers of a file of safetensors.
def tensors(file)
  size = file.unpack1("Q<")
  [JSON.parse(file[8, size]), file[8 + size..]]
end

# Return the numbers of a tensor, and its shape.
def array(file, name)
  header, numbers = tensors(file)
  first, last = header[name]["data_offsets"]
  kind = { "I64" => "q<*", "F32" => "e*" }.fetch(header[name]["dtype"])
  [numbers[first...last].unpack(kind), header[name]["shape"]]
end

# The ids of two rows: t, h and w of each token; the shorter row is padded on the left.
ids = post("/positions.safetensors", File.binread("prompt.json"), "application/json")
positions, (axes, rows, length) = array(ids, "position_ids")
puts "rope_deltas: #{array(ids, "rope_deltas")[0].join(" ")}"
token = Array.new(axes) { |axis| positions[axis * rows * length + 13] }
puts "token 13 of row 0: #{token.join(" ")}"

# The ids as they are for the cosines and sines of every token, and with queries to rotate them.
table = post("/rope.safetensors?pack=half&#{ROPE}", ids, BINARY)
cos, sin = array(table, "cos")[0], array(table, "sin")[0]
q = Array.new(rows * 2 * length * 128) { |i| (7919 * i % 2048 - 1024) / 1024.0 }
header, numbers = tensors(ids)
offsets = [numbers.size, numbers.size + 4 * q.size]
header["q"] = { "dtype" => "F32", "shape" => [rows, 2, length, 128], "data_offsets" => offsets }
text = JSON.generate(header)
body = [text.bytesize].pack("Q<") + text.b + numbers + q.pack("e*")
apply = "/rope/apply.safetensors?layout=half&axes=batch,head,seq,channel&#{ROPE}"
answer = post(apply, body, BINARY)
File.binwrite("rotated.safetensors", answer)

# The same by hand; and the number that transformers has.
rotated, = array(answer, "q")
same = rotated.each_with_index.all? do |value, i|
  at = i / (2 * length * 128) * length * 128 + i % (length * 128)
  other = i % 128 < 64 ? -q[i + 64] : q[i - 64]
  (value - (q[i] * cos[at] + other * sin[at])).abs < 1e-6
end
puts "as cos and sin: #{same}"
value = rotated[(length + 30) * 128]
puts format("q[0][1][30][0]: %.6f", value)
abort("expected 0.750977") unless (value - 0.750977).abs < 1e-6
