# frozen_string_literal: true

module OjsWorker
  # Makes the one answer that a job gets from what its handler returned or raised.
  # @api private
  module Answer
    # Failures that this library makes: the handler has not described them itself.
    OWN_FAILURES = [InvalidArgs, StepsChanged, CheckpointTooLarge].freeze

    module_function

    # @return [String] the frame
    def ack(job, result)
      return Wire.frame("ack", job.id) if result.nil?
      Wire.frame("ack", job.id, result: Wire.check(result))
    rescue StandardError, SystemStackError => e
      # The work is done, so a failure would do it again.
      reason = Wire.line(e.message, 200) if e.is_a?(TypeError)
      OjsWorker.log(:error, "job #{job.id} (#{job.type}): its result, a #{result.class}, is no JSON and left out" \
                            "#{": #{reason}" if reason}")
      Wire.frame("ack", job.id)
    end

    # @param outcome [Cancelled, Release]
    # @return [String] the frame
    def release(job, outcome)
      after_ms = (outcome.after * 1000).ceil if outcome.is_a?(Release) && outcome.after
      reason = outcome.reason && Wire.text(outcome.reason)
      Wire.frame("release", job.id, **{ reason: reason, after_ms: after_ms }.compact)
    end

    # @return [Exception, nil] the failure with which a job ends; nil if it goes back instead
    def failure_of(error)
      return error unless error.is_a?(Cancelled) || error.is_a?(Release)
      return unless error.is_a?(Cancelled) && error.reason == "timeout"
      Retry.new("the job took longer than its timeout", code: "timeout", type: "Timeout")
    end

    # @return [String] the frame
    def fail(job, failure)
      described = Report.describe(failure)
      level = described[:retryable] && job.attempts_left&.positive? ? :warn : :error
      OjsWorker.log(level, "job #{job.id} (#{job.type}) failed", failure) unless own_words?(failure)
      Wire.frame("fail", job.id, error: described)
    end

    # The answer without a word in the log, and without a result.
    # @return [String] the frame
    def bare(job, error)
      return Wire.frame("ack", job.id) unless error
      failure = failure_of(error)
      failure ? Wire.frame("fail", job.id, error: Report.describe(failure)) : release(job, error)
    end

    # @return [Boolean] whether the backend will not try the job again
    def final?(job, failure) = job.last_attempt? || (failure.is_a?(Failure) && !failure.retryable?)

    # @return [Boolean] whether the handler described the failure itself. Then there is no mistake
    #   to find, and ojs-init logs its words
    def own_words?(failure)
      failure.is_a?(Failure) && failure.cause.nil? && OWN_FAILURES.none? { |kind| failure.is_a?(kind) }
    end
  end
end
