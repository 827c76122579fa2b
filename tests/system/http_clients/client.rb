# ruby client.rb URL: send the requests of standard input with Net::HTTP.
require "json"
require "net/http"

url = URI(ARGV[0])
Net::HTTP.start(url.host, url.port) do |http|
  $stdin.each_line(chomp: true) do |line|
    method, target, fields, body = line.split("\t", -1)
    headers = fields.split("|").to_h { |header| header.split(": ") }
    answer = http.send_request(method, target, body.empty? ? nil : body, headers)
    puts JSON.generate(status: answer.code.to_i, body: (answer.body || "").unpack1("H*"))
  end
end
