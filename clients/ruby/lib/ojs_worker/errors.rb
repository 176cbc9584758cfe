# frozen_string_literal: true

module OjsWorker
  # What this library raises, unless a better class of Ruby's own says it.
  class Error < StandardError; end

  # There is no ojs-init to take jobs from.
  class NotUnderOjsInit < Error; end

  # ojs-init has closed the connection. The process must end; nothing reconnects.
  class ConnectionLost < Error; end

  # This library and ojs-init do not come together: another version of the protocol, or names of job types that are too long in all.
  class ProtocolError < Error; end

  # The connection belongs to the process that opened it, and this is a child of that one.
  class ForkedProcess < Error; end

  # ojs-init has not read for {WRITE_TIMEOUT} seconds; the frame was not sent.
  class Stalled < Error; end

  # What {Job#raise_if_cancelled} raises. The job is answered as its cancel reason asks for.
  #
  # Like {Release} it is no StandardError: it is no mistake, and a `rescue => e` of the handler's own lets it through.
  class Cancelled < Exception; end # rubocop:disable Lint/InheritException

  # A failure in the handler's own words: what {Retry} and {Discard} have in common.
  class Failure < StandardError
    # @return [String] short and stable; your own begin with `x_`
    attr_reader :code
    # @return [String, nil] the error's class as the backend is told it; nil: the class of what was rescued, or this one
    attr_reader :type
    # @return [Hash, nil] anything more that is JSON
    attr_reader :details

    # @param message [String, nil] for a person
    # @param code [String] short and stable; your own begin with `x_`
    # @param type [String, nil] the error's class
    # @param details [Hash, nil] anything more that is JSON
    def initialize(message = nil, code: "handler_error", type: nil, details: nil, **unknown)
      OjsWorker.check_options("#{self.class}.new", unknown, %w[code type details])
      super(message.to_s)
      @code = code
      @type = type
      @details = details
    end

    # @return [Boolean] whether another attempt may help
    def retryable?
      true
    end
  end

  # Raise it to fail the job in your own words; the backend's retry policy decides about the next attempt.
  #
  # Raised in a `rescue`, it also reports what was rescued: its class, and where it arose.
  class Retry < Failure
    # Seconds; more than any backend waits.
    MAX_AFTER = 1_000_000_000

    # @param after [Numeric, nil] seconds until the next attempt: a wish that goes as `details.retry_after_ms`
    # @raise [ArgumentError] for an `after` that is no such number
    def initialize(message = nil, after: nil, code: "handler_error", type: nil, details: nil, **unknown)
      OjsWorker.check_options("#{self.class}.new", unknown, %w[after code type details])
      unless after.nil?
        Retry.check_after(after)
        details = (details || {}).merge("retry_after_ms" => (after * 1000).round) if details.nil? || details.is_a?(Hash)
      end
      super(message, code: code, type: type, details: details)
    end

    # @api private
    def self.check_after(after)
      return if after.is_a?(Numeric) && after.real? && after >= 0 && after <= MAX_AFTER
      raise ArgumentError, "after is a number of seconds from 0 to #{MAX_AFTER}, not #{after.inspect}"
    end
  end

  # Raise it to fail the job for good: another attempt would not help.
  class Discard < Failure
    # @return [Boolean] false
    def retryable?
      false
    end
  end

  # The steps of a handler are not those that an earlier attempt has finished, or the row where it stopped is gone.
  class StepsChanged < Discard
    def initialize(message = nil, type: "StepsChanged", **more)
      super(message, type: type, **more)
    end
  end

  # What {Job#step} and {Job#iterate} have to save is more than 64 KiB of JSON.
  class CheckpointTooLarge < Discard
    def initialize(message = nil, type: "CheckpointTooLarge", **more)
      super(message, type: type, **more)
    end
  end

  # Raise it to give the job back unprocessed, with no failure recorded where the backend can do that.
  #
  # It is no StandardError: it is no mistake, and a `rescue => e` of the handler's own lets it through.
  class Release < Exception # rubocop:disable Lint/InheritException
    # @return [String, nil] for the log
    attr_reader :reason

    # @return [Numeric, nil] seconds for which ojs-init holds the job before it goes back, 30 at most
    attr_reader :after

    # @param reason [String, nil] for the log
    # @param after [Numeric, nil] seconds for which ojs-init holds the job before it goes back, 30 at most
    # @raise [ArgumentError] for an `after` that is no such number
    def initialize(reason = nil, after: nil, **unknown)
      OjsWorker.check_options("#{self.class}.new", unknown, %w[after])
      Retry.check_after(after) unless after.nil?
      super(reason.to_s)
      @reason = reason
      @after = after
    end
  end
end
