# frozen_string_literal: true

require "json"
require "socket"

# A backend that accepts jobs over HTTP, or answers what a test wants.
class FakeBackend
  # @return [Thread::Queue] the bodies of the requests
  attr_reader :jobs
  # @return [Thread::Queue] the heads of the requests
  attr_reader :heads

  # @param answers [Array] for each request a status, a whole answer, or nil to close the connection
  #   without one; 201 after the last one
  def initialize(*answers)
    @answers = answers
    @jobs = Thread::Queue.new
    @heads = Thread::Queue.new
    @server = TCPServer.new("127.0.0.1", 0)
    @thread = Thread.new { loop { serve(@server.accept) } }
    @thread.report_on_exception = false
  end

  def url
    "http://127.0.0.1:#{@server.addr[1]}"
  end

  def close
    @thread.kill.join
    @server.close
  end

  private

  def serve(client)
    head = client.gets("\r\n\r\n")
    job = JSON.parse(client.read(head[/content-length: (\d+)/i, 1].to_i))
    @heads << head
    @jobs << job
    status = @answers.empty? ? 201 : @answers.shift
    answer(client, status, job) if status
  ensure
    client.close
  end

  def answer(client, status, job)
    return client.write(status) if status.is_a?(String)
    body = { job: { id: job["id"] || "chosen" } } if status == 201
    body = JSON.generate(body || { error: { code: "no", message: "not now" } })
    client.write("HTTP/1.1 #{status} X\r\nContent-Length: #{body.bytesize}\r\nConnection: close\r\n\r\n#{body}")
  end
end
