# frozen_string_literal: true

module OjsWorker
  # What became of a job that {Worker#perform} ran: `outcome` is "ack", "fail" or "release";
  # `result` as JSON has it; `error` a Hash as ojs-init gets it; `reason` of a release;
  # `checkpoints` the saved states; `progress` the reports, each a Hash.
  Outcome = Struct.new(:outcome, :result, :error, :reason, :checkpoints, :progress, keyword_init: true) do
    # @return [Boolean] whether the job is done
    def ack? = outcome == "ack"
  end

  # Runs one job in this process. The options of {Worker#perform}:
  #
  # - `checkpoint`: what an earlier attempt saved
  # - `timeout`: seconds after which the job is cancelled with the reason timeout
  # - `cancel`: a reason with which the job is cancelled, `cancel_after` seconds (0) after its begin
  # - `stopping`: the worker is being shut down, with so many seconds left
  # - `id`, `queue`, `attempt`, `meta`, and `envelope` with further fields of the job
  # - `patience`: seconds (60) after which a handler that has not ended is an error
  # @api private
  class Perform
    OPTIONS = %i[id queue attempt meta checkpoint timeout cancel cancel_after stopping envelope patience].freeze

    # Stands for the connection and the threads: keeps the frames, and the handler until it begins.
    class Recorder
      # @return [Array<Hash>] the frames
      attr_reader :frames

      def initialize
        @frames, @pid = [], Process.pid
      end

      def post(data) = (@frames << Wire.parse(data)).size

      def wait(_position) = true

      def foreign? = Process.pid != @pid

      def wake; end

      def submit(_limit, &task) = @task = task

      def start = Thread.new(&@task)

      def of_type(*types) = @frames.select { |frame| types.include?(frame["type"]) }
    end

    def initialize(registry, type, args, options)
      OjsWorker.check_options("Worker#perform", options.except(*OPTIONS), OPTIONS)
      raise ArgumentError, "args is an Array, not #{args.inspect}" unless args.is_a?(Array)
      @options = { cancel_after: 0, patience: 60, envelope: {}, **options }
      @job = { id: "perform-1", type: type, queue: "default", attempt: 1, args: args, meta: {},
               **options.slice(:id, :queue, :attempt, :meta), **@options[:envelope] }
      @job[:timeout_ms] = (options[:timeout] * 1000).round if options[:timeout]
      @recorder = Recorder.new
      @session = Session.new(registry, @recorder, pool: @recorder)
    end

    # @return [Outcome]
    def run
      receive({ type: "hello", protocol: PROTOCOL, state: "running", concurrency: 1 })
      receive({ type: "job", job: @job, checkpoint: @options[:checkpoint] })
      due = interruptions
      receive(due.shift[1]) while due.any? && due[0][0].zero?
      @recorder.start
      outcome(wait_for_answer(due))
    ensure
      @session.close_log
    end

    private

    def receive(frame)
      @session.receive(JSON.generate(Wire.check(frame), max_nesting: Wire::READ_DEPTH))
    rescue TypeError, JSON::JSONError => e
      raise ArgumentError, "the job is no JSON: #{e.message}"
    end

    # @return [Array] seconds after the handler's begin, and the frame that comes then
    def interruptions
      timeout, stopping, reason, after = @options.values_at(:timeout, :stopping, :cancel, :cancel_after)
      due = [timeout && [timeout, cancel_frame("timeout")], reason && [after, cancel_frame(reason)]]
      due << (stopping && [0, { type: "lifecycle", state: "terminate", remaining_ms: (stopping * 1000).round }])
      due << (stopping && [stopping, cancel_frame("shutdown")])
      due.compact.sort_by.with_index { |(seconds, _), index| [seconds, index] }
    end

    def cancel_frame(reason) = { type: "cancel", job_id: @job[:id], reason: reason, grace_ms: 1000 }

    # The session wakes all that wait in `wait_until` when a job is answered.
    def wait_for_answer(due)
      started = OjsWorker.now
      patience = @options[:patience]
      loop do
        seconds, frame = due.shift || [patience, nil]
        @session.wait_until([started + [seconds, patience].min - OjsWorker.now, 0].max) { answer }
        return answer if answer
        raise Error, "the handler has not ended within #{patience} s (patience:)" if OjsWorker.now >= started + patience
        receive(frame) if frame
      end
    end

    def answer = @recorder.of_type("ack", "fail", "release").first

    def outcome(frame)
      Outcome.new(outcome: frame["type"], **frame.slice("result", "error", "reason").transform_keys(&:to_sym),
                  checkpoints: @recorder.of_type("checkpoint").map { |each| each["state"] },
                  progress: @recorder.of_type("progress").map { |each| each.slice("progress", "message", "data") })
    end
  end
end
