# frozen_string_literal: true

require "logger"

# A worker for the Open Job Spec that runs under ojs-init. Ruby 3.1 or later, nothing but Ruby's own libraries.
#
# ojs-init talks to the backend: it fetches, heartbeats, acknowledges and shuts down. This library takes jobs from it
# over the Unix socket `$OJS_SOCKET` and runs a block of yours for each:
#
#     require "ojs_worker"
#
#     worker = OjsWorker::Worker.new
#
#     worker.job("email.send") do |job|
#       { sent_to: job.args[0] }
#     end
#
#     worker.run
#
# Start it with `ojs-init -- ruby worker.rb`.
#
# How it works: one thread, the one that calls {Worker#run}, reads the socket and never waits for anything else, so a
# ping is answered and a cancellation noticed whatever the handlers do. Handlers run on threads of their own.
module OjsWorker
  # The version of the worker socket's protocol.
  PROTOCOL = 1
  # The environment variable with the socket's path.
  ENV_SOCKET = "OJS_SOCKET"
  ENV_MODE = "OJS_MODE"
  # The modes of ojs-init in which it gives no socket to the worker.
  MODES_WITHOUT_SOCKET = %w[gateway exec none].freeze
  # Bytes of a frame, where ojs-init does not say.
  DEFAULT_MAX_FRAME = 4 * 1024 * 1024
  # Most jobs at once.
  MAX_CONCURRENCY = 10_000
  # Most job types of a worker.
  MAX_TYPES = 10_000
  # Bytes of a job type.
  MAX_NAME_BYTES = 1024
  # Seconds that a frame may wait for ojs-init to read.
  WRITE_TIMEOUT = 10
  # Seconds that handlers get, by default, to end after SIGTERM; ojs-init kills soon after that.
  STOP_GRACE = 0.5
  MAX_STOP_GRACE = 86_400
  # Seconds; the system takes no infinite time.
  LONGEST_WAIT = 86_400
  # The status of a process that was ended with jobs unanswered: 128 + SIGTERM.
  CUT_OFF_STATUS = 143

  class << self
    # @return [Logger] where this library logs; warnings on standard error by default
    attr_writer :logger

    def logger
      @logger ||= Logger.new($stderr, level: Logger::WARN, progname: "ojs_worker")
    end

    # A line of this library's own. A logger of the program's that raises must not cost an answer, nor the connection.
    # @api private
    def log(level, &text)
      logger.public_send(level, &text)
    rescue StandardError, ScriptError, SystemStackError => e
      return if @told_of_logger
      @told_of_logger = true
      begin
        warn("ojs_worker: its logger raises, lines are missing (said once): #{Report.class_name(e)}: #{Report.message_of(e)}")
      rescue StandardError
        nil # there is no standard error either
      end
    end

    # @api private
    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # End the process without waiting for handlers, exit hooks or threads of anybody.
    # @api private
    def end_now(status)
      Thread.new { [$stdout, $stderr].each(&:flush) }.join(0.2)
    rescue StandardError
      nil
    ensure
      exit!(status)
    end

    # @api private
    def check_options(where, unknown, known)
      return if unknown.empty?
      names = unknown.keys.map(&:inspect).join(", ")
      raise ArgumentError, "#{where}: unknown option #{names}; the options are #{known.join(", ")}"
    end
  end
end

require_relative "ojs_worker/version"
require_relative "ojs_worker/errors"
require_relative "ojs_worker/wire"
require_relative "ojs_worker/report"
require_relative "ojs_worker/log"
require_relative "ojs_worker/resume"
require_relative "ojs_worker/resumable"
require_relative "ojs_worker/link"
require_relative "ojs_worker/pool"
require_relative "ojs_worker/job"
require_relative "ojs_worker/incoming"
require_relative "ojs_worker/answers"
require_relative "ojs_worker/session"
require_relative "ojs_worker/parent"
require_relative "ojs_worker/processes"
require_relative "ojs_worker/worker"
require_relative "ojs_worker/perform"

module OjsWorker
  # What ojs-init is told about this library, for its log.
  CLIENT = "ojs-worker-ruby/#{VERSION} (#{RUBY_ENGINE} #{RUBY_VERSION})".freeze
end
