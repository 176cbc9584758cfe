# frozen_string_literal: true

# The fixture worker of docs/write-a-client.md, for clients/fixtures/play.py.

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "ojs_worker"

OjsWorker.install_logging
library_logger = Logger.new($stderr, progname: "a_library")

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

def names(job)
  job.context[:names] ||= []
end

%w[outer inner].each do |name|
  worker.middleware do |job, &handler|
    names(job) << name if job.type == "fixture.middleware"
    handler.call
  end
end

worker.job("fixture.release_after") { |job| raise OjsWorker::Release.new("later", after: job.args[0]) }

worker.job("fixture.retry") { |job| raise OjsWorker::Retry.new(job.args[0], after: job.args[1], code: "x_retry") }

worker.job("fixture.discard") { |job| raise OjsWorker::Discard, job.args[0] }

# A typed handler: its arguments come one by one.
class Typed
  include OjsWorker::Job

  job_type "fixture.typed"
  args String, Integer

  def perform(to, count)
    { to: to, count: count }
  end
end

worker.register(Typed)

worker.job("fixture.not_json") { Object.new }

worker.job("fixture.fields") do |job|
  {
    id: job.id, type: job.type, queue: job.queue, attempt: job.attempt, args: job.args, meta: job.meta,
    last_checkpoint: job.last_checkpoint, has_deadline: !job.deadline.nil?,
    deadline_ms: job.deadline && ((job.deadline - Time.now) * 1000).round,
    remaining_ms: job.remaining && (job.remaining * 1000).round, is_last_attempt: job.last_attempt?,
    traceparent: job.traceparent
  }
end

worker.job("fixture.middleware") { |job| names(job) }

worker.job("fixture.log") do |job|
  library_logger.info(job.args[0])
  nil
end

worker.job("fixture.iterate") do |job|
  done = []
  job.iterate(0...job.args[0]) do |row|
    sleep(job.args[1] / 1000.0)
    done << row
  end
  { rows: done }
end

worker.job("fixture.keyed") do |job|
  done = []
  rows = Array.new(job.args[0]) { |i| { "id" => 10 * i } }
  job.iterate(rows, key: ->(row) { row["id"] }) do |row|
    sleep(job.args[1] / 1000.0)
    done << row["id"]
  end
  { rows: done }
end

worker.job("fixture.steps") do |job|
  ran = []
  results = job.args.map do |name|
    job.step(name) do
      ran << name
      name.upcase
    end
  end
  { ran: ran, results: results }
end

worker.job("fixture.stopping") do |job|
  job.wait_stopping
  raise OjsWorker::Release, job.cancel_reason if job.cancelled?
  { remaining_known: !job.remaining.nil? }
end

worker.run(processes: ARGV.include?("--processes") ? 2 : nil)
