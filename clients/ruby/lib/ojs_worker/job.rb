# frozen_string_literal: true

module OjsWorker
  # A job class: its `perform` gets the arguments of the job.
  #
  #     class EmailSend
  #       include OjsWorker::Job
  #
  #       job_type "email.send"
  #       job_options queue: "mail"
  #       args String, Integer
  #
  #       def perform(to, count)
  #         job.progress(0.5)
  #         { sent: count }
  #       end
  #     end
  #
  #     worker.register(EmailSend)
  #     EmailSend.perform_async("a@b.c", 2)
  module Job
    # @return [JobContext] the job that runs
    attr_accessor :job

    # @api private
    def self.included(owner) = owner.extend(ClassMethods)

    private

    # In a job it ends when the job is cancelled: see {JobContext#sleep}.
    def sleep(*seconds) = job ? job.sleep(seconds[0]) : super

    # What a job class has.
    module ClassMethods
      # @api private
      def inherited(subclass)
        super
        %i[@job_type @job_options @job_args @exhausted].each do |name|
          subclass.instance_variable_set(name, instance_variable_get(name))
        end
      end

      # Set, or return, the job type.
      # @param type [String, nil]
      # @return [String]
      # @raise [ArgumentError] if it was never set
      def job_type(type = nil)
        @job_type = type if type
        @job_type || raise(ArgumentError, "#{self} has no job type: write job_type \"email.send\" in the class")
      end

      # Set, or return, the options with which jobs are enqueued: see {Client#enqueue}.
      def job_options(**options) = @job_options = (@job_options || {}).merge(options)

      # Declare the types of the arguments. A job with others fails for good, as {InvalidArgs}.
      # @param types [Array] a class, nil, or an Array of alternatives for each argument
      def args(*types) = @job_args = types

      # Run the block when a job fails for good: at its last attempt, or with an error that is not
      # retried. The block does not run for a job whose process dies.
      # @yieldparam job [JobContext]
      # @yieldparam error [Exception]
      def retries_exhausted(&block) = @exhausted = block

      # @api private
      def exhausted(job, error) = @exhausted&.call(job, error)

      # Enqueue a job.
      # @return [String] its id
      # @raise [InvalidArgs] if the arguments do not fit `perform`
      # @raise [EnqueueError]
      def perform_async(*args) = enqueue(args)

      # Enqueue a job for later.
      # @param interval [Numeric, Time] seconds from now, or the time
      # @return [String] its id
      def perform_in(interval, *args)
        at = interval.is_a?(Numeric) ? Time.now + interval : interval
        enqueue(args, delay_until: at)
      end
      alias perform_at perform_in

      # @api private
      # @raise [ArgumentError] if `perform` could not be called with the arguments of any job
      def job_arguments
        raise ArgumentError, "#{self} has no perform: write def perform(to, body)" unless method_defined?(:perform)
        parameters = instance_method(:perform).parameters
        if parameters.any? { |kind, _| kind == :keyreq }
          raise ArgumentError, "#{self}#perform has keywords: write def perform(#{parameters.map(&:last).join(", ")})"
        end
        Arguments.new(parameters, @job_args)
      end

      private

      def enqueue(args, **more)
        job_arguments.check(args)
        OjsWorker.client.enqueue(job_type, args, id: Client.new_id, **job_options, **more)
      end
    end
  end
end
