# frozen_string_literal: true

module OjsWorker
  # One delivery of a job: what a handler gets. Any thread of the process may call its methods.
  class JobContext
    # Seconds before the end of a shutdown within which no row and no step begins.
    LEAST_NOTICE = 0.25
    # A row or step needs so many times its usual time to begin during a shutdown.
    USUAL_TIMES = 1.5
    # Most steps whose time is remembered: a name may be made of data.
    MAX_STEP_TIMES = 10_000
    RESUMES = "resumes at its checkpoint"

    # - `id`: the same in each delivery
    # - `type`, `queue`, `args`, `meta`
    # - `envelope`: all of it. Integers are exact, other numbers are floats
    # - `attempt`: some backends begin with 0, others with 1; nil if unknown
    # - `traceparent`: the W3C context of ojs-init's span of the job, the parent of the handler's own
    #   spans; without one that of the producer (`meta`); nil if there is neither
    # - `deadline`: the Time when the job's timeout ends; nil without a timeout
    # - `last_checkpoint`: what an earlier attempt saved with {#checkpoint}; nil for nothing
    # - `cancel_reason`: shutdown, timeout, cancelled or lost; nil while the job is not cancelled
    # - `context`: a Hash for middleware and handler, which ends with the job
    attr_reader :id, :type, :queue, :args, :meta, :traceparent, :envelope, :attempt
    attr_reader :deadline, :last_checkpoint, :cancel_reason, :context

    # @api private
    def initialize(session, envelope, checkpoint, traceparent = nil)
      @session, @envelope, @id = session, envelope, envelope["id"]
      @type, @queue = field("type", String, ""), field("queue", String, "default")
      @attempt, @most = field("attempt", Integer, nil), field("max_attempts", Integer, nil)
      @args, @meta = field("args", Array, []), field("meta", Hash, {})
      @traceparent = [traceparent, @meta["traceparent"]].grep(String).first
      seconds = field("timeout_ms", Numeric, nil)&.fdiv(1000) || field("timeout", Numeric, 0)
      @deadline = Time.now + seconds if seconds.positive? && seconds < MAX_SECONDS
      @resume = Resume.new(checkpoint)
      # Not by JSON: Ruby reads 1e400 as Infinity, and cannot write that.
      @last_checkpoint = Marshal.load(Marshal.dump(@resume.state))
      @context = {}
    end

    # @return [Boolean] whether a failure of this attempt is for good; false if the backend does not
    #   say how many attempts there are
    def last_attempt? = !attempts_left.nil? && attempts_left <= 0

    # @api private
    # @return [Integer, nil] attempts after this one; nil if that is unknown
    def attempts_left = attempt && @most && (@most - attempt)

    # @return [Boolean] whether the job is cancelled: {#cancel_reason} says why
    def cancelled? = !@cancel_reason.nil?

    # Sleep, and end the handler if the job is cancelled meanwhile. `Kernel#sleep` would go on.
    # @param seconds [Numeric]
    # @raise [Cancelled]
    def sleep(seconds)
      raise Cancelled, @cancel_reason if wait_cancelled(seconds)
    end

    # Wait until the job is cancelled.
    # @param timeout [Numeric, nil] seconds; nil: no limit
    # @return [Boolean] whether the job is cancelled
    def wait_cancelled(timeout = nil) = @session.wait_until(timeout) { cancelled? }

    # End the handler here if the job is cancelled.
    # @raise [Cancelled]
    def raise_if_cancelled
      raise Cancelled, @cancel_reason if cancelled?
    end

    # @return [Boolean] whether the worker is being shut down. The job goes on until it is cancelled
    def stopping? = @session.state == "terminate" || @cancel_reason == "shutdown"

    # Wait until the worker is being shut down, or the job is cancelled for another reason.
    # @param timeout [Numeric, nil] seconds; nil: no limit
    # @return [Boolean] whether the worker is being shut down
    def wait_stopping(timeout = nil)
      @session.wait_until(timeout) { stopping? || cancelled? }
      stopping?
    end

    # @return [Float, nil] seconds until a shutdown cancels the job; nil while there is no shutdown
    def remaining = @session.remaining

    # Report that the job is alive. ojs-init does that by itself.
    # @return [void]
    def heartbeat = post("heartbeat")

    # Report progress. At most one report a second reaches the backend; the newest wins.
    # @param fraction [Numeric] 0.0 to 1.0; a number outside counts as the nearer end
    # @param message [String, nil] for a person
    # @param data [Object, nil] JSON
    # @return [void]
    # @raise [ArgumentError, TypeError] for a fraction that is no number, or data that is no JSON
    def progress(fraction, message = nil, data: nil)
      fraction = Float(fraction)
      raise ArgumentError, "progress is a number from 0 to 1" if fraction.nan?
      words = { message: message && Wire.text(message), data: Wire.check(data) }.compact
      post("progress", progress: fraction.clamp(0.0, 1.0), **words)
    end

    # Save a state for the next attempt, which gets it as {#last_checkpoint}. Once this returns,
    # ojs-init has it, even if this process crashes.
    # @param state [Object] JSON
    # @return [void]
    # @raise [ArgumentError, TypeError] for what is no JSON
    # @raise [CheckpointTooLarge] for more than `worker.max_frame`; with steps or loops, if all that is
    #   saved is more than 64 KiB
    def checkpoint(state) = @resume.save_state(state) { |saved| post("checkpoint", state: saved) }

    # Run a block once over all attempts. A later attempt gets the saved result instead.
    #
    # Steps come in the same order in each attempt, one after the other.
    # @param name [String] unique in the job
    # @yieldreturn [Object] the result: JSON, and small
    # @return [Object] the result as JSON has it: symbols are strings
    # @raise [StepsChanged] if an earlier attempt had other steps, or another order
    # @raise [CheckpointTooLarge] if all that is saved is more than 64 KiB
    def step(name)
      raise ArgumentError, "a step has a block: job.step(#{name.inspect}) { ... }" unless block_given?
      finished = @resume.begin_step(name)
      return finished[0] if finished
      begin
        leave_if_stopping(@session.step_times.fetch([type, name], 0))
        started = OjsWorker.now
        result = @resume.finish_step(yield)
        @session.step_times.shift if @session.step_times.size >= MAX_STEP_TIMES
        @session.step_times[[type, name]] = OjsWorker.now - started
      ensure
        @resume.leave_step
      end
      save_position
      result
    end

    # Yield each row once over all attempts: a later attempt begins behind the last finished row.
    #
    # The position is saved every 5 s, and before the job fails or goes back. During a shutdown the
    # job goes back at no cost of an attempt when too little time is left for another row.
    # @param rows [Enumerable, #call] the rows, in the same order in each attempt; or a callable
    #   that gets the position (first nil) and returns the rows behind it
    # @param key [#call, Symbol, nil] gives the row's position; nil: its index
    # @yieldparam row [Object]
    # @return [nil]
    # @raise [StepsChanged] if the last row of an earlier attempt does not come any more
    def iterate(rows, key: nil)
      raise ArgumentError, "job.iterate has a block: job.iterate(rows) { |row| ... }" unless block_given?
      cursor = @resume.begin_loop(key)
      rows = cursor.rows_behind(rows) unless rows.respond_to?(:each)
      # `each_entry` makes one row of several values that `each` yields.
      rows.to_enum.each_entry do |row|
        next if cursor.skip?(row)
        leave_if_stopping(cursor.usual)
        position = cursor.position(row)
        started = OjsWorker.now
        yield row
        cursor.advance(position, OjsWorker.now - started)
        save_position if @resume.due?
      end
      cursor.finish
    end

    # @return [String]
    def inspect = "#<#{self.class} #{id} #{type}>"
    alias to_s inspect

    # @api private
    def cancel(reason) = @cancel_reason ||= reason # rubocop:disable Naming/MemoizedInstanceVariableName

    # Save the steps and positions that are not saved yet.
    # @api private
    def save_position = @resume.save { |saved| post("checkpoint", state: saved) }

    private

    def post(type, **fields)
      frame = Wire.frame(type, id, **fields)
      size, most = frame.bytesize - 1, @session.max_frame
      # ojs-init closes the connection after three frames that are too long.
      if size > most
        raise type == "checkpoint" ? CheckpointTooLarge : ArgumentError,
              "the frame of a #{type} has #{size} bytes, and ojs-init takes #{most} at most (worker.max_frame)"
      end
      @session.post_about(self, frame)
    end

    def field(name, kind, default) = @envelope[name].is_a?(kind) ? @envelope[name] : default

    # Before a row or step.
    def leave_if_stopping(usual)
      left = remaining
      is_near = left && left < [usual * USUAL_TIMES, LEAST_NOTICE].max
      raise Cancelled, cancel_reason || RESUMES if cancelled? || is_near
    end
  end
end
