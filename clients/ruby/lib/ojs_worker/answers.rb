# frozen_string_literal: true

module OjsWorker
  # How a {Session} runs a handler and answers for it.
  # @api private
  module Answers
    REMEMBERED = 1024
    # Of failures that this library makes itself.
    OWN_TYPES = %w[InvalidResult StepsChanged CheckpointTooLarge].freeze

    private

    # On a thread of the pool.
    def process(job)
      OjsWorker.with_job(job) { process_as_current(job) }
    end

    def process_as_current(job)
      result = nil
      # What stays if the handler ends its own thread.
      error = ThreadEnded.new("the handler ended its thread", type: "ThreadError")
      begin
        # Even after its timeout: it was not processed.
        raise Release, job.cancel_reason if job.cancelled?
        @before_handler&.call
        result = @worker.call_handler(job)
        error = nil
      rescue Exception => e # rubocop:disable Lint/RescueException
        error = e
      end
    ensure
      settle(job, result, error)
    end

    # What the answer is if a handler ends its thread.
    class ThreadEnded < Retry; end

    # The handler has ended. A Timeout.timeout, Thread#raise or Thread#kill that comes too late must not cost the answer.
    def settle(job, result, error)
      Thread.handle_interrupt(Object => :never) do
        end_forked_child(error) unless @link.pid == Process.pid
        end_process(job, error) if error.is_a?(SystemExit) || error.is_a?(SignalException)
        error = end_of(job, error)
        begin
          job.save_at_end if error
        ensure
          answer(job, result, error)
        end
      end
    end

    # What ended the handler at a row or step counts, unless the handler has chosen an outcome itself after that.
    # @return [Exception, nil] with what the job ends
    def end_of(job, error)
      ending = job.ending
      return error if ending.nil? || error.equal?(ending) || chosen?(error)
      unless error.is_a?(Cancelled)
        short = "job #{Wire.line(job.id)} (#{Wire.line(job.type)}): its handler caught what ended it (#{Report.class_name(ending)}: " \
                "#{Report.message_of(ending)}), which counts, and not that it #{error ? "raised something else" : "returned"}"
        OjsWorker.log(:warn) { LogLine.new(Wire.line(short, 1000), error || ending) }
      end
      ending
    end

    def chosen?(error)
      (error.is_a?(Failure) || error.is_a?(Release)) && !error.is_a?(ThreadEnded) && !error.is_a?(CheckpointTooLarge)
    end

    # Somebody wants the whole process to end. It will, when the other jobs are finished.
    def end_process(job, error)
      OjsWorker.log(:error) { "job #{Wire.line(job.id)}: #{error.class} in its handler: the worker ends" }
      @exit_error = error
      @stop_asked = true
    end

    # The handler is done: the one answer that its job gets.
    def answer(job, result, error)
      kind, data = answer_or_excuse(job, result, error)
      @lock.synchronize do
        @held.delete(job.id)
        @parent&.job_done
        @answers[job.id] = kind
        @answers.shift if @answers.size > REMEMBERED
        @link.post(data)
        @changed.broadcast if @held.empty?
      end
    rescue ConnectionLost
      nil # nobody takes answers any more
    ensure
      # No frame follows an answer: whether this process is worn is to be looked at now.
      @link.wake if @stop_asked || ending? || @parent
    end

    def answer_or_excuse(job, result, error)
      answer_frame(job, result, error)
    rescue Exception => e # rubocop:disable Lint/RescueException -- out of memory, most likely
      OjsWorker.log(:error) { "job #{Wire.line(job.id)}: its answer cannot be made: #{e.class}" }
      failure = { "code" => "handler_error", "message" => "the answer cannot be made", "retryable" => true }
      ["fail", Wire.frame("fail", job.id, error: failure)]
    end

    def answer_frame(job, result, error)
      if error.nil?
        return ["ack", Wire.frame("ack", job.id)] if result.nil?
        frame = result_frame(job, result)
        return ["ack", frame] if frame.is_a?(String)
        error = frame
      end
      thrown = error
      if error.is_a?(Cancelled) && job.cancelled?
        error = job.cancel_reason == "timeout" ? timed_out : Release.new(job.cancel_reason)
      end
      if error.is_a?(Release)
        reason = error.reason.nil? ? nil : Wire.clean(error.reason, 1000)
        after_ms = (error.after * 1000).ceil if error.after&.positive?
        return ["release", Wire.frame("release", job.id, reason: reason, after_ms: after_ms)]
      end
      described = Report.describe(error)
      unless in_own_words?(error)
        level = described["retryable"] && more_attempts?(job) ? :warn : :error
        OjsWorker.log(level) { LogLine.new("job #{Wire.line(job.id)} (#{Wire.line(job.type)}) failed", thrown) }
      end
      ["fail", failure_frame(job, described)]
    end

    # The handler itself said what is wrong, or obeyed the cancel for its timeout: there is no mistake to look for, and ojs-init logs its words.
    def in_own_words?(error)
      error.is_a?(Failure) && !error.is_a?(ThreadEnded) && error.cause.nil? && !OWN_TYPES.include?(error.type)
    end

    # Whether the backend tries the job again; false if that is unknown.
    def more_attempts?(job)
      attempt, most = job.envelope.values_at("attempt", "max_attempts")
      attempt.is_a?(Integer) && most.is_a?(Integer) && attempt < most
    end

    def timed_out
      Retry.new("the job took longer than it may", code: "timeout", type: "Timeout")
    end

    # @return [String, Discard] the frame, or why there is none
    def result_frame(job, result)
      data = Wire.frame("ack", job.id, %("result":#{Wire.dump(result)}))
      return data if fits?(data)
      # As ojs-init does when the backend refuses a result: the work is done, it must not be done again.
      OjsWorker.log(:error) { "job #{Wire.line(job.id)}: its result is dropped: #{data.bytesize} bytes, over #{@max_frame}" }
      Wire.frame("ack", job.id)
    rescue StandardError, SystemStackError => e
      Discard.new("the handler's result is not JSON: #{e.class}: #{Wire.clean(e.message, 500)}", type: "InvalidResult")
    end

    def failure_frame(job, described)
      data = Wire.frame("fail", job.id, error: described)
      return data if fits?(data)
      OjsWorker.log(:error) { "job #{Wire.line(job.id)}: details and backtrace are dropped: the report has #{data.bytesize} bytes" }
      described = described.reject { |name, _| %w[details backtrace].include?(name) }
      described["message"] = described["message"][0, 200]
      Wire.frame("fail", job.id, error: described)
    end

    # A handler forked, and its child came back from it. The job is the parent's.
    def end_forked_child(error)
      status = error.nil? ? 0 : 1
      status = error.status if error.is_a?(SystemExit)
      OjsWorker.end_now(status & 0xFF)
    end
  end
end
