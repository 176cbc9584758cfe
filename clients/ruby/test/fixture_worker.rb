# frozen_string_literal: true

# The fixture worker of docs/worker-socket.md, for clients/fixtures/play.py.

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "ojs_worker"

worker = OjsWorker::Worker.new(**(ARGV.each_cons(2).include?(%w[--concurrency default]) ? {} : { concurrency: 2 }))

worker.job("fixture.echo", &:args)

worker.job("fixture.fail") do |job|
  message, retryable = job.args
  raise (retryable ? OjsWorker::Retry : OjsWorker::Discard).new(message, code: "x_fixture", type: "FixtureError")
end

worker.job("fixture.crash") { |job| raise job.args[0] }

worker.job("fixture.wait") do |job|
  job.wait_cancelled
  raise OjsWorker::Release, job.cancel_reason
end

worker.job("fixture.sleep") do |job|
  sleep(job.args[0] / 1000.0)
  nil
end

worker.job("fixture.progress") do |job|
  job.progress(0.5, "half")
  nil
end

worker.job("fixture.checkpoint") do |job|
  job.checkpoint({ step: 1 })
  { resumed_from: job.last_checkpoint }
end

worker.job("fixture.heartbeat") do |job|
  job.heartbeat
  nil
end

worker.job("fixture.release") { raise OjsWorker::Release, "not mine" }

worker.job("fixture.large") { |job| "x" * job.args[0] }

worker.run
