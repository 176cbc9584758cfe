# frozen_string_literal: true

# A plain worker over HTTP: CONCURRENCY threads, each on its own kept connection, until JOBS were acknowledged.
require "json"
require "net/http"
require "securerandom"
require "uri"

url = URI(ENV.fetch("OJS_URL"))
concurrency = Integer(ENV.fetch("CONCURRENCY", "10"))
most = Integer(ENV.fetch("JOBS"))
done = 0
lock = Mutex.new

worker_id = "bare-#{SecureRandom.hex(8)}"
headers = { "Content-Type" => "application/json" }
threads = Array.new(concurrency) do
  Thread.new do
    Net::HTTP.start(url.host, url.port) do |http|
      while lock.synchronize { done < most }
        request = JSON.generate(queues: ["default"], count: 1, worker_id: worker_id)
        answer = http.post("/ojs/v1/workers/fetch", request, headers)
        raise "fetch: #{answer.code} #{answer.body}" unless answer.is_a?(Net::HTTPSuccess)
        jobs = JSON.parse(answer.body)["jobs"] || []
        sleep(0.02) if jobs.empty?
        jobs.each do |job|
          answer = http.post("/ojs/v1/workers/ack", JSON.generate(job_id: job["id"], result: nil), headers)
          raise "ack: #{answer.code} #{answer.body}" unless answer.is_a?(Net::HTTPSuccess)
          lock.synchronize { done += 1 }
        end
      end
    end
  end
end
threads.each(&:join)
