# frozen_string_literal: true

module OjsWorker
  # One connection's life: a link, the handlers, and the jobs that are held.
  #
  # The thread that calls {#run} reads frames and never waits for a handler.
  # @api private
  class Session
    # Seconds that handlers get for cleanup when ojs-init has closed the connection.
    LOST_GRACE = 0.25
    STATES = %w[running quiet terminate].freeze
    # The id of no job. ojs-init answers a heartbeat for it once it has read what came before.
    NO_JOB = "ojs-worker-stop"

    # Running, quiet or terminate; most jobs at once and the worker's name, nil before `hello`; the
    # seconds that each step, by job type and name, took last; the longest frame that ojs-init takes,
    # in bytes without the line break.
    attr_reader :state, :concurrency, :worker_id, :step_times, :max_frame

    def initialize(registry, link, concurrency: nil, pool: Pool.new, ping: false)
      @registry, @link, @pool, @concurrency, @ping = registry, link, pool, concurrency, ping
      @state, @max_frame = "running", Float::INFINITY
      # Guards `@held`, and what `@changed` is about. Taken before the link's own lock.
      @lock = Mutex.new
      @changed = ConditionVariable.new
      @held, @step_times, @not_offered = {}, {}, Set.new
      # What the thread that reads logs.
      @log = LateLog.new
      @greeted = @stop_asked = @stopping = @may_end = false
    end

    # Serve until the worker is told to end and no job is held, or ojs-init closes the connection.
    def run
      loop do
        begin_stop if @stop_asked && !@stopping
        break if done?
        @link.read.each { |line| receive(line) }
        break lose_connection if @link.eof?
      end
    ensure
      @link.close
      @pool.close
      close_log
    end

    # Wait for the lines that are left, but not for ever.
    def close_log = @log.close(LOST_GRACE)

    # Take no more jobs and let {#run} return when none is held. Takes no lock, so a signal handler
    # may call it.
    def stop
      @stop_asked = true
      @link.wake
    end

    # @return [Boolean] whether no more jobs are taken
    def ending? = @stop_asked || @state == "terminate"

    # @return [Float, nil] seconds until a shutdown cancels what is held
    def remaining = @stops_at && [0.0, @stops_at - OjsWorker.now].max

    # Wait until the block is true. It is asked again after each frame that could change it.
    # @param timeout [Numeric, nil] seconds
    # @return [Object] what the block gives in the end
    def wait_until(timeout)
      deadline = timeout && (OjsWorker.now + timeout)
      @lock.synchronize do
        until yield
          left = deadline && (deadline - OjsWorker.now)
          break if left && left <= 0
          @changed.wait(@lock, left)
        end
        yield
      end
    end

    # Send a frame about a job that is held, and wait until ojs-init has it.
    # @raise [Cancelled] if the connection is closed, or belongs to the process that forked this one
    def post_about(job, data)
      position = @lock.synchronize do
        raise Error, "job #{job.id} is answered already" unless @held[job.id].equal?(job)
        @link.post(data)
      end
      raise Cancelled, "lost" unless position && @link.wait(position)
    end

    # Handle a line from ojs-init.
    # @raise [ProtocolError]
    def receive(line)
      frame = Wire.parse(line)
      case frame["type"]
      when "job" then on_job(frame["job"], frame["checkpoint"], frame["traceparent"])
      when "ping" then @link.post(Wire.frame("pong", id: frame["id"]))
      when "cancel" then cancel(@lock.synchronize { @held[frame["job_id"]] }, frame["reason"])
      when "lifecycle" then on_lifecycle(frame["state"], frame["remaining_ms"])
      when "hello" then on_hello(frame)
      when "error" then on_error(frame["code"], frame["message"], frame["job_id"])
      end
    rescue Wire::Unreadable => e
      on_unreadable(line, e)
    end

    private

    def done? = @lock.synchronize { (@may_end || @state == "terminate") && @held.empty? && @link.flushed? }

    def begin_stop
      @stopping = true
      return @may_end = true unless @greeted
      # Jobs may be on their way until ojs-init has read that no more are taken.
      @link.post(ready_frame(0) << Wire.frame("heartbeat", NO_JOB)) if @state != "terminate"
    end

    def ready_frame(concurrency) = Wire.ready(@registry.types, concurrency, @max_frame, ping: @ping)

    def on_hello(frame)
      raise ProtocolError, "ojs-init does not speak protocol #{PROTOCOL}" if frame["protocol"] != PROTOCOL
      @greeted = true
      @worker_id = frame["worker_id"]
      @max_frame = frame["max_frame"] || @max_frame
      @concurrency = [@concurrency, frame["concurrency"]].compact.min || 1
      on_lifecycle(frame["state"], nil)
      @link.post(ready_frame(@concurrency)) unless ending?
    end

    def on_lifecycle(state, remaining_ms)
      return if !STATES.include?(state) || @state == "terminate"
      @log.add(:info, "ojs-init is in the state #{state}") if state != @state
      change do
        @stops_at = OjsWorker.now + (remaining_ms / 1000.0) if remaining_ms.is_a?(Numeric)
        @state = state
      end
    end

    def on_job(envelope, checkpoint, traceparent)
      id = envelope["id"]
      return @log.add(:warn, "job #{id} came again while its handler runs") if @lock.synchronize { @held.key?(id) }
      job = JobContext.new(self, envelope, checkpoint, traceparent)
      @lock.synchronize { @held[id] = job }
      @pool.submit(@concurrency) { work(job) }
    rescue ThreadError
      # The limit of processes or memory is reached. Another worker may have room.
      finish(job, nil, Release.new("no thread can be started"))
    end

    # Ruby's parser has limits of its own; a job that it refuses fails for good.
    def on_unreadable(line, error)
      id = line.scrub("?")[Wire::JOB_ID, 1]&.then { |text| JSON.parse(text) }
      @log.add(:warn, "a frame from ojs-init cannot be read: #{error.message} (job #{id || "unknown"})")
      return unless id
      described = { retryable: false, code: "invalid_job", message: "Ruby cannot read the job: #{error.message}" }
      @link.post(Wire.frame("fail", id, error: described))
    end

    # An error frame only informs; a lost job gets a `cancel` of its own.
    def on_error(code, message, job_id)
      return @may_end = true if job_id == NO_JOB
      raise ProtocolError, Wire.line(message, 1000) if code == "unsupported_protocol"
      return if code == "not_offered" && !@not_offered.add?(message)
      level = code == "not_held" ? :debug : :warn
      @log.add(level, "ojs-init refuses a frame (job #{job_id || "unknown"}): #{code}: #{message}")
    end

    def cancel(job, reason)
      return if job.nil? || job.cancelled?
      change { job.cancel(Wire.text(reason)) }
      @log.add(:info, "job #{job.id} is cancelled: #{reason}")
    end

    def change
      @lock.synchronize do
        yield
        @changed.broadcast
      end
    end

    def lose_connection
      jobs = @lock.synchronize { @held.values }
      return if jobs.empty?
      @log.add(:error, "ojs-init has closed the connection: #{jobs.size} jobs are lost")
      jobs.each { |job| cancel(job, "lost") }
      wait_until(LOST_GRACE) { @held.empty? }
      close_log
      # `exit!` because a handler that hangs could keep `exit` from ending.
      @held.empty? ? exit(1) : exit!(1)
    end

    # Run a job's handler and answer for it, on a thread of the pool.
    def work(job)
      # The error if the handler ends its thread.
      result, error = nil, ThreadError.new("the handler ended its thread")
      OjsWorker.with_job(job) do
        # A Timeout or Thread#kill interrupts the handler alone.
        result = Thread.handle_interrupt(Object => :immediate) { @registry.call(job) }
        error = nil
      rescue Exception => e # rubocop:disable Lint/RescueException
        error = e
      ensure
        finish(job, result, error)
      end
    end

    def finish(job, result, error)
      # In a child that a handler forked and left: the job is the parent's.
      exit!(error ? 1 : 0) if @link.foreign?
      data = answer(job, result, error)
    ensure
      # There is no answer yet if a Thread#kill ended a hook or the logger.
      data ||= Answer.bare(job, error)
      change do
        # Forget the job before the answer is written: the same id may come again right after it.
        @held.delete(job.id)
        @link.post(data)
      end
      @link.wake if ending?
    end

    def answer(job, result, error)
      return Answer.ack(job, result) unless error
      save_position(job)
      failure = Answer.failure_of(error)
      return Answer.release(job, error) unless failure
      @registry.failed(job, error, Answer.final?(job, failure))
      Answer.fail(job, failure)
    rescue Exception => e # rubocop:disable Lint/RescueException
      bare_answer(job, error, e)
    end

    # A hook, the logger or a late interrupt must not change what the handler decided.
    def bare_answer(job, error, trouble)
      OjsWorker.log(:error, "job #{job.id}: its answer cannot be made in full", trouble)
      Answer.bare(job, error)
    rescue Exception # rubocop:disable Lint/RescueException
      Wire.frame("fail", job.id, error: { retryable: true, code: "handler_error", message: "no answer can be made" })
    end

    # A later attempt must not repeat finished rows.
    def save_position(job)
      job.save_position unless job.cancel_reason == "lost"
    rescue StandardError, Cancelled => e
      OjsWorker.log(:warn, "job #{job.id}: its position is not saved", e)
    end
  end
end
