# frozen_string_literal: true

module OjsWorker
  # The base class of errors that concern the worker itself.
  class Error < StandardError; end

  # No ojs-init gives jobs to this process.
  class NotUnderOjsInit < Error; end

  # ojs-init speaks another version of the protocol.
  class ProtocolError < Error; end

  # The backend did not accept a job, or could not be reached.
  class EnqueueError < Error
    # The HTTP status (nil without an answer), and the backend's error code.
    attr_reader :status, :code

    def initialize(message, status: nil, code: nil)
      super(message)
      @status, @code = status, code
    end
  end

  # Ends a handler whose job is cancelled or goes on in a later attempt. Do not rescue it.
  #
  # It is not a StandardError, so `rescue => e` lets it through. With the reason `timeout` the job
  # fails with the code `timeout`; with any other reason it goes back to its queue.
  class Cancelled < Exception # rubocop:disable Lint/InheritException
    # @return [String] shutdown, timeout, cancelled, lost, or "resumes at its checkpoint"
    def reason = message
  end

  # A failure that the handler describes itself: the base class of {Retry} and {Discard}.
  class Failure < StandardError
    # What {#initialize} got.
    attr_reader :code, :type, :details

    # @param message [String, nil] for a person
    # @param code [String] short and stable; own codes begin with `x_`
    # @param type [String, nil] the error's class for the backend; nil: the cause's, or its own
    # @param details [Hash, nil] further JSON
    # @raise [ArgumentError] for an unknown option
    def initialize(message = nil, code: "handler_error", type: nil, details: nil, **unknown)
      OjsWorker.check_options("#{self.class}.new", unknown, %w[code type details])
      super(message.to_s)
      @code, @type, @details = code, type, details
    end

    # @return [Boolean] whether another attempt may help
    def retryable? = true
  end

  # Fails the job. The backend's retry policy decides about the next attempt.
  #
  # Raised in a `rescue`, it reports the class and backtrace of the rescued error.
  class Retry < Failure
    # @param after [Numeric, nil] a wish, in seconds (0 or more), sent as `details.retry_after_ms`
    def initialize(message = nil, after: nil, details: nil, **options)
      OjsWorker.check_seconds("after", after)
      details = (details || {}).merge("retry_after_ms" => (after * 1000).round) if after
      super(message, details: details, **options)
    end
  end

  # Fails the job for good.
  class Discard < Failure
    # @return [Boolean] false
    def retryable? = false
  end

  # The arguments of a job do not fit its handler. The message never has a value of them.
  class InvalidArgs < Discard
    def initialize(message = nil) = super(message, code: "invalid_args", type: "InvalidArgs")
  end

  # The steps or rows of a handler differ from those of an earlier attempt.
  class StepsChanged < Discard
    def initialize(message = nil) = super(message, type: "StepsChanged")
  end

  # The steps, positions and state of a resumable job are more than 64 KiB of JSON, or a checkpoint is
  # more than `worker.max_frame`.
  class CheckpointTooLarge < Discard
    def initialize(message = nil) = super(message, type: "CheckpointTooLarge")
  end

  # Gives the job back to its queue unprocessed. No attempt is counted, if the backend can do that.
  #
  # It is not a StandardError, so `rescue => e` lets it through.
  class Release < Exception # rubocop:disable Lint/InheritException
    # What {#initialize} got.
    attr_reader :reason, :after

    # @param reason [String, nil] for the log
    # @param after [Numeric, nil] seconds (0 or more) that ojs-init holds the job first, 30 at most
    def initialize(reason = nil, after: nil)
      OjsWorker.check_seconds("after", after)
      super(reason.to_s)
      @reason, @after = reason, after
    end
  end
end
