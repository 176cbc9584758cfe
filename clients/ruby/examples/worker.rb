# frozen_string_literal: true

# Sends e-mails, or would: email.send [to, body].
require "ojs_worker"

# One JSON object a line, as ojs-init writes them.
OjsWorker.install_logging

# Sends one e-mail.
class EmailSend
  include OjsWorker::Job

  job_type "email.send"
  args String, [String, nil]

  def perform(to, _body = nil)
    raise OjsWorker::Discard, "#{to} is no address" unless to.include?("@")

    # `meta.sleep_ms` makes the work take that long; a cancel ends the wait.
    sleep(job.meta.fetch("sleep_ms", 0) / 1000.0)
    { sent: true }
  end
end

worker = OjsWorker::Worker.new
worker.register(EmailSend)
worker.run
