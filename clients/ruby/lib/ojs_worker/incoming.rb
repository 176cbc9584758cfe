# frozen_string_literal: true

module OjsWorker
  # What a {Session} does with the frames of ojs-init.
  # @api private
  module Incoming
    MALFORMED = %w[not_json invalid_frame frame_too_long].freeze
    STATES = %w[running quiet terminate].freeze
    # A job that nobody has: what ojs-init says about it tells how far it has read.
    NOBODYS_JOB = "ojs-worker-nobody"

    # What a frame has to have, and has not.
    class Unfit < StandardError; end

    private

    def on_line(line)
      return if line.match?(/\A[ \t\r]*\z/n)
      begin
        frame = Wire.parse(line)
      rescue Wire::Unreadable => e
        return on_unreadable(line, e)
      end
      begin
        dispatch(frame, line)
      rescue Unfit => e
        OjsWorker.log(:warn) { "a frame #{Wire.line(frame["type"].inspect)} from ojs-init is ignored: #{e.message}" }
      end
    end

    def dispatch(frame, line)
      case frame["type"]
      when "job" then on_job(need(frame, "job", Hash), frame["checkpoint"], line)
      when "ok" then on_ok(need(frame, "job_id", String), frame["for"])
      when "ping" then @link.post(Wire.frame("pong", id: need(frame, "id", Integer)), urgent: true)
      when "cancel" then on_cancel(need(frame, "job_id", String), need(frame, "reason", String))
      when "lifecycle" then on_lifecycle(frame["state"], frame["reason"], frame["remaining_ms"])
      when "hello" then on_hello(frame)
      when "error" then on_error(need(frame, "code", String), frame["message"], frame["job_id"])
      else OjsWorker.log(:debug) { "a frame of an unknown type is ignored: #{Wire.line(frame["type"].inspect)}" }
      end
    end

    def need(frame, name, kind)
      value = frame[name]
      # Half a surrogate pair could not be sent back.
      return value if value.is_a?(kind) && (!value.is_a?(String) || value.valid_encoding?)
      raise Unfit, "its `#{name}` is no #{kind}"
    end

    def on_unreadable(line, error)
      job_id = Wire.salvage_job_id(line)
      OjsWorker.log(:warn) { "a frame from ojs-init cannot be read: #{error.message} (job #{Wire.line(job_id || "unknown")})" }
      return if job_id.nil?
      fail_unread(job_id, "invalid_job", "the job cannot be read by Ruby: #{error.message}", false)
    end

    def on_hello(frame)
      unless frame["protocol"] == PROTOCOL
        raise ProtocolError, "ojs-init speaks version #{frame["protocol"].inspect} of the protocol, this is #{PROTOCOL}"
      end
      return if @greeted
      @greeted = true
      @worker_id = frame["worker_id"] if frame["worker_id"].is_a?(String)
      @max_frame = frame["max_frame"] if frame["max_frame"].is_a?(Integer)
      on_lifecycle(frame.fetch("state", "running"), nil, nil)
      offered = frame["concurrency"].is_a?(Integer) ? frame["concurrency"].clamp(1, MAX_CONCURRENCY) : 1
      @concurrency = [@concurrency, offered].compact.min
      return if ending?
      ready = ready_frame(@concurrency)
      raise ProtocolError, "the names of all job types together are longer than a frame may be (#{@max_frame})" unless fits?(ready)
      @link.post(ready)
      @parent&.ready
    end

    def on_lifecycle(state, reason, remaining_ms)
      raise Unfit, "no such state" unless STATES.include?(state)
      return if @state == "terminate" && state != "terminate"
      OjsWorker.log(:info) { "#{state} (#{Wire.line(reason || "at start")})" } if state != @state
      @lock.synchronize do
        @deadline = OjsWorker.now + (remaining_ms / 1000.0) if remaining_ms.is_a?(Numeric)
        @state = state
        @changed.broadcast
      end
      @parent&.terminating if state == "terminate"
    end

    def on_job(envelope, checkpoint, line)
      id = need(envelope, "id", String)
      if held?(id)
        OjsWorker.log(:warn) { "job #{Wire.line(id)} came again while its handler runs, which goes on" }
      elsif ending? && !retiring?
        # On its way when we said that we take no more.
        @link.post(Wire.frame("release", id, reason: "the worker is ending"))
      elsif !envelope["type"].is_a?(String)
        refuse(id, "handler_not_found", "the job has no type", true)
      elsif @worker.handler_for(envelope["type"]).nil?
        refuse(id, "handler_not_found", "this worker has no handler for #{Wire.clean(envelope["type"], 200)}", true)
      else
        start(Job.new(self, envelope, checkpoint, line))
      end
    end

    # Only this thread takes jobs in: what is not held stays so.
    def held?(id)
      @lock.synchronize { @held.key?(id) }
    end

    def start(job)
      @lock.synchronize do
        @held[job.id] = job
        @answers.delete(job.id)
      end
      answer(job, nil, Release.new("no thread can be started")) unless @pool.submit(-> { process(job) })
    end

    def refuse(id, code, message, retryable)
      OjsWorker.log(:error) { "job #{Wire.line(id)}: #{Wire.line(message, 1000)}" }
      fail_unread(id, code, message, retryable)
    end

    def fail_unread(id, code, message, retryable)
      @link.post(Wire.frame("fail", id, error: { "code" => code, "message" => message, "retryable" => retryable }))
    end

    def on_cancel(job_id, reason)
      job = @lock.synchronize { @held[job_id] }
      cancel(job, Wire.clean(reason, 200)) if job
    end

    def on_ok(job_id, about)
      @lock.synchronize { @answers.delete(job_id) if @answers[job_id] == about }
    end

    def on_error(code, message, job_id)
      return @settled_at = OjsWorker.now if job_id == NOBODYS_JOB
      text = Wire.line(message || "", 1000)
      held = answered = nil
      @lock.synchronize do
        held = @held[job_id]
        answered = @answers.delete(job_id) unless held
      end
      case code
      when "lost", "not_held"
        OjsWorker.log(held || answered == "ack" ? :warn : :debug) { "job #{Wire.line(job_id)}: #{code}: #{text}" }
        cancel(held, "lost") if held
      when "unsupported_protocol"
        raise ProtocolError, "ojs-init does not speak version #{PROTOCOL} of the protocol: #{text}"
      when *MALFORMED
        OjsWorker.log(:error) { "ojs-init refuses a frame (job #{Wire.line(job_id || "unknown")}): #{code}: #{text}" }
        return unless %w[ack release].include?(answered)
        refuse(job_id, "handler_error", "the handler's answer was refused: #{code}: #{text}", false)
      else on_other_error(code, text, job_id, answered)
      end
    end

    def on_other_error(code, text, job_id, answered)
      if code == "refused" && answered == "ack"
        OjsWorker.log(:warn) { "job #{Wire.line(job_id)}: the backend refuses its result, ojs-init reports it without: #{text}" }
      elsif code == "not_offered"
        return if @said[text] || @said.size >= 100
        @said[text] = true
        OjsWorker.log(:warn) { "the backend does not offer this (said once): #{text}" }
      else
        OjsWorker.log(:warn) { "job #{Wire.line(job_id)}: ojs-init says #{Wire.line(code)}: #{text}" }
      end
    end
  end
end
