# frozen_string_literal: true

# Sends e-mails, or would: email.send [to, body].
require "ojs_worker"

# One JSON object a line, as ojs-init writes them.
OjsWorker.install_logging

worker = OjsWorker::Worker.new

worker.job("email.send") do |job|
  to, _body = job.args
  raise OjsWorker::Discard, "#{to} is no address" unless to.to_s.include?("@")

  # `meta.sleep_ms` makes the work take that long; a cancel ends the wait.
  sleep_ms = job.meta["sleep_ms"]
  job.raise_if_cancelled if sleep_ms && job.wait_cancelled(sleep_ms / 1000.0)
  { sent: true }
end

worker.run
