# A model's rotary table from posref: fetch it, check it, read a part of it, find a mistake.
# Run, beside config.json: ruby rope.rb http://127.0.0.1:8000
require "json"
require "net/http"

SERVER = URI(ARGV[0] || "http://127.0.0.1:8000")

# Returns an answer, which must have this status. With a body, the request is a POST.
def ask(status, path, headers = {}, body = nil)
  http = Net::HTTP.new(SERVER.host, SERVER.port)
  answer = body ? http.post(path, body, headers) : http.get(path, headers)
  abort "#{path}: #{answer.code} #{answer.body}" unless answer.code.to_i == status
  answer
end

def check(name, value, expected)
  puts format("%s: %.6f", name, value)
  abort "expected #{expected}" unless (value - expected).abs < 1e-6
end

# From the config to the cosines in the layout of the model: a row of 64 for each position.
config = File.read("config.json")
answer = ask(200, "/rope/config", { "Content-Type" => "application/json" }, config)
model = JSON.parse(answer.body)
puts "layout: #{model["layout"]}"
link = model["rope"]["default"]["cos"]
table = ask(200, link)
# A header of npy has 128 bytes. The config divides the lowest frequency by its factor, 32.
cos = table.body.unpack("@128e*")
lowest = 500_000**(-62.0 / 64) / 32
check("cos[131071][31]", cos[131_071 * 64 + 31], Math.cos(131_071 * lowest))
ask(304, link, { "If-None-Match" => table["ETag"] })
puts "unchanged: 304"

# One row of a table of 512 GiB, and a misspelled parameter.
first = 128 + 4 * 10**9 * 64
row = ask(206, "#{link}&seq_len=2147483648", { "Range" => "bytes=#{first}-#{first + 255}" })
check("cos[1000000000][0]", row.body.unpack1("e"), Math.cos(1e9))
problem = ask(422, "/rope?head_dim=64&seqlen=8")
puts "problem: #{JSON.parse(problem.body)["detail"]}"

# The first 64 rows of an engine that interleaves the channels of a model with halves.
rows = cos.first(64 * 64).each_slice(64)
mine = rows.flat_map { |cosines| cosines.first(32).flat_map { |cosine| [cosine, cosine] } }
to = URI.encode_www_form_component(link)
types = { "Content-Type" => "application/octet-stream", "Accept" => "text/plain" }
report = ask(200, "/diagnose?shape=64,64&dtype=float32&to=#{to}", types, mine.pack("e*"))
puts "diagnosis: #{report.body.lines.first}"
