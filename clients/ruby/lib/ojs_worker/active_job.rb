# frozen_string_literal: true

require "active_job"
require "ojs_worker"

module OjsWorker
  # Runs the jobs of ActiveJob, and enqueues them.
  #
  #     config.active_job.queue_adapter = :ojs   # the application enqueues with OjsWorker.client
  #     OjsWorker::ActiveJob.install(worker)     # the worker runs what was enqueued
  module ActiveJob
    # The type of all jobs of ActiveJob. The class is in the arguments.
    JOB_TYPE = "active_job"

    # Let a worker run every job of ActiveJob.
    # @param worker [Worker]
    def self.install(worker)
      worker.job(JOB_TYPE, args: [Hash]) { |job, data| execute(job, data) }
    end

    # ActiveJob itself runs `retry_on` and `discard_on`: such an error ends the job as done, and a
    # retry is another job. An error that comes out here has no such rule, and the backend's retry
    # policy counts; or the rule's attempts are used up, and the job fails for good.
    # @api private
    def self.execute(job, data)
      ::ActiveJob::Base.execute(data.merge("provider_job_id" => job.id))
      nil
    rescue StandardError => e
      raise unless rule?(data["job_class"], e)
      raise Discard.new(e.message, type: e.class.name)
    end

    # @return [Boolean] whether the job's class has a rule for the error
    def self.rule?(class_name, error)
      job_class = class_name.to_s.safe_constantize
      !job_class.nil? && !job_class.handler_for_rescue(error, object: job_class.allocate).nil?
    end
    private_class_method :rule?
  end
end

module ActiveJob
  module QueueAdapters
    # Enqueues over the backend's HTTP API: `config.active_job.queue_adapter = :ojs`.
    #
    # A smaller ActiveJob priority runs first; OJS has it the other way round, so the sign changes.
    class OjsAdapter
      # Most and least priority of a backend.
      PRIORITIES = -100..100

      # @param job [ActiveJob::Base]
      # @raise [OjsWorker::EnqueueError]
      def enqueue(job) = enqueue_at(job, nil)

      # @param timestamp [Numeric, nil] seconds since 1970
      def enqueue_at(job, timestamp)
        options = { queue: job.queue_name, delay_until: timestamp && Time.at(timestamp) }
        options[:priority] = (-job.priority).clamp(PRIORITIES) if job.priority
        job.provider_job_id = OjsWorker.client.enqueue(OjsWorker::ActiveJob::JOB_TYPE, [job.serialize],
                                                       id: OjsWorker::Client.new_id, **options.compact)
      end

      # A transaction that is rolled back must not leave a job behind (Rails 7.2).
      def enqueue_after_transaction_commit? = true

      # Whether a continuation stops at its next step (Rails 8.1).
      def stopping? = OjsWorker.current_job&.stopping? || false
    end
  end
end
