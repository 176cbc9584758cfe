# frozen_string_literal: true

module OjsWorker
  # What a handler is given. Its methods may be called from any thread of the process.
  class Job
    include Resumable

    # @return [String] its id, the same in each delivery
    attr_reader :id
    # @return [String] what kind of work it is
    attr_reader :type
    # @return [String] the queue that it came from
    attr_reader :queue
    # @return [Integer, nil] the number of this attempt, as the backend counts: never compute with it
    attr_reader :attempt
    # @return [Array] its arguments
    attr_reader :args
    # @return [Hash] its metadata
    attr_reader :meta
    # @return [Hash] all of it. Integers are exact, other numbers are floats: see {#raw}
    attr_reader :envelope
    # @return [Time, nil] when its timeout will be over; nil if it has none
    attr_reader :deadline
    # @return [Object, nil] what an earlier attempt saved with {#checkpoint}; nil if nothing
    attr_reader :last_checkpoint
    # @return [String, nil] why it is cancelled: shutdown, timeout, cancelled or lost; nil as long as it is not
    attr_reader :cancel_reason
    # @return [Hash] for middleware and handler to hand things to each other; it ends with the job
    attr_reader :context

    # @api private
    def initialize(session, envelope, checkpoint, line)
      @session = session
      @envelope = envelope
      @line = line
      @id = envelope["id"]
      @type = envelope["type"]
      @queue = typed("queue", String, "default")
      @attempt = typed("attempt", Integer, nil)
      @args = typed("args", Array, [])
      @meta = typed("meta", Hash, {})
      @deadline = deadline_from(Time.now)
      @resume = Resume.new(checkpoint)
      @last_checkpoint = Wire.copy(@resume.user)
      @context = {}
    end

    # @return [String] the envelope exactly as the backend sent it
    def raw
      @raw ||= Wire.raw_object(@line, "job")
    end

    # @return [Boolean] whether nobody waits for the result any more: {#cancel_reason} says why. Return, or raise, soon
    def cancelled?
      !@cancel_reason.nil?
    end

    # Wait until the job is cancelled.
    # @param timeout [Numeric, nil] seconds; nil: as long as it takes
    # @return [Boolean] whether it is cancelled
    def wait_cancelled(timeout = nil)
      @session.wait_until(timeout) { cancelled? }
      cancelled?
    end

    # @return [Boolean] whether the worker is being shut down. The job may go on until it is cancelled
    def stopping?
      @session.state == "terminate" || @cancel_reason == "shutdown"
    end

    # Wait until the worker is being shut down, or the job is cancelled for another reason.
    # @param timeout [Numeric, nil] seconds; nil: as long as it takes
    # @return [Boolean] whether the worker is being shut down
    def wait_stopping(timeout = nil)
      @session.wait_until(timeout) { stopping? || cancelled? }
      stopping?
    end

    # @return [Float, nil] seconds until what is not finished is cancelled; nil while nothing shuts down
    def remaining
      @session.remaining
    end

    # End the handler here if the job is cancelled; the right answer is given.
    # @raise [Cancelled]
    def raise_if_cancelled
      raise Cancelled, @cancel_reason if @cancel_reason
    end

    # Tell the backend now that this job is alive. ojs-init does that by itself at its interval.
    def heartbeat
      tell_or_warn(Wire.frame("heartbeat", @id))
    end

    # Say how far it is. At most one a second reaches the backend, the newest wins.
    # @param fraction [Numeric] from 0.0 to 1.0; what is below or above is taken as that
    # @param message [String, nil] for a person
    # @param data [Object, nil] anything that is JSON
    # @raise [ArgumentError] for what is no number
    def progress(fraction, message = nil, data: nil)
      unless fraction.is_a?(Numeric) && fraction.real? && !fraction.to_f.nan?
        raise ArgumentError, "progress is a number from 0 to 1, not #{fraction.inspect}"
      end
      fraction = fraction.clamp(0, 1)
      fraction = fraction.to_f unless fraction.is_a?(Integer)
      text = message.nil? ? nil : Wire.clean(message, Report::MAX_MESSAGE_CHARS)
      tell_or_warn(Wire.frame("progress", @id, progress: fraction, message: text, data: data))
    end

    # Save where the next attempt shall go on; it gets it as {#last_checkpoint}. Once this returns, ojs-init will
    # deliver it to the backend even if this process crashes.
    # @param state [Object] anything that is JSON
    # @raise [Stalled] when ojs-init does not read
    # @raise [CheckpointTooLarge] in a job with steps or {#iterate}, when all that is kept is more than 64 KiB
    def checkpoint(state)
      wait_until_written(@resume.keep(Wire.dump(state)) { |text| send_checkpoint(text) })
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{@id} #{@type}>"
    end
    alias to_s inspect

    # @api private
    def cancel(reason)
      @cancel_reason ||= reason
    end

    private

    def tell_or_warn(data)
      @session.wait_until_written(@session.post_about(self, data))
    rescue Stalled => e
      OjsWorker.log(:warn) { "job #{Wire.line(@id)}: #{e.message}" }
    end

    def typed(name, kind, default)
      value = @envelope[name]
      value.is_a?(kind) ? value : default
    end

    def deadline_from(now)
      milliseconds = @envelope["timeout_ms"]
      seconds = milliseconds.is_a?(Numeric) ? milliseconds / 1000.0 : @envelope["timeout"]
      now + seconds if seconds.is_a?(Numeric) && seconds.positive? && seconds < 1e9
    end
  end
end
