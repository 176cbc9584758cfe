# frozen_string_literal: true

# The least that a worker can do: what is measured is the client.
require "ojs_worker"

worker = OjsWorker::Worker.new
worker.job("bench.noop") { nil }
worker.run
