# frozen_string_literal: true

require "logger"
require "set"

# A worker for the Open Job Spec that runs under ojs-init.
#
#     require "ojs_worker"
#
#     worker = OjsWorker::Worker.new
#     worker.job("email.send") { |job| { sent_to: job.args[0] } }
#     worker.run
#
# Start it with `ojs-init -- ruby worker.rb`. ojs-init talks to the backend and hands jobs over the
# Unix socket `$OJS_SOCKET`. The thread that calls {Worker#run} reads the socket; handlers run on
# threads of their own.
module OjsWorker
  # The version of the worker socket's protocol.
  PROTOCOL = 1
  # The environment variable with the socket's path.
  ENV_SOCKET = "OJS_SOCKET"
  # Most jobs at once.
  MAX_CONCURRENCY = 10_000
  # Seconds: the longest delay or hold that an option takes.
  MAX_SECONDS = 1_000_000_000

  autoload :Client, "ojs_worker/client"

  class << self
    attr_writer :logger, :client

    # @return [Logger] the library's own log; warnings on standard error by default
    def logger = @logger ||= Logger.new($stderr, level: Logger::WARN, progname: "ojs_worker")

    # @return [Client] what `perform_async` enqueues with; by default for `OJS_URL`
    def client = @client ||= Client.new

    # Log a line of this library. A logger that raises must not cost an answer.
    # @api private
    def log(level, text, error = nil)
      text = Wire.line(text)
      interruptible { logger.public_send(level, error ? ErrorLine.new(text, error) : text) }
    rescue StandardError, SystemStackError
      nil # There is no other place to report it.
    end

    # Run code of the program that is no handler, on a thread of the pool. A Timeout works in it,
    # and a thread that it starts can be ended: a new thread inherits the mask of interrupts. An
    # interrupt that is pending already was meant for the handler, so it stays out.
    # @api private
    def interruptible(&block)
      Thread.pending_interrupt? ? yield : Thread.handle_interrupt(Object => :immediate, &block)
    end

    # @api private
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # @api private
    def check_options(where, unknown, known)
      return if unknown.empty?
      names = unknown.keys.map(&:inspect).join(", ")
      raise ArgumentError, "#{where}: unknown option #{names}; the options are #{known.join(", ")}"
    end

    # @api private
    def check_seconds(name, value)
      return if value.nil? || (value.is_a?(Numeric) && value.real? && value.between?(0, MAX_SECONDS))
      raise ArgumentError, "#{name} is a number of seconds from 0 to #{MAX_SECONDS}, not #{value.inspect}"
    end
  end
end

%w[
  version errors wire report log link resume job_context arguments job registry pool answer session prefork perform
  worker
].each { |name| require_relative "ojs_worker/#{name}" }
