# frozen_string_literal: true

module OjsWorker
  # What became of a job that {Worker#perform} ran.
  # `outcome` is "ack", "fail" or "release"; `result` the result as JSON has it; `error` the failure that the backend would
  # be told, a Hash; `reason` that of a release; `checkpoints` the states that were saved, and `progress` what was said
  # about it, each as a Hash, in order.
  Outcome = Struct.new(:outcome, :result, :error, :reason, :checkpoints, :progress, keyword_init: true) do
    # @return [Boolean] whether the job is done
    def ack?
      outcome == "ack"
    end
  end

  # Runs one job in this process by the functions that serve the socket, and plays ojs-init towards them.
  # @api private
  class Perform
    OPTIONS = %i[id queue attempt meta checkpoint timeout cancel cancel_after stopping envelope patience].freeze

    # What stands in a {Session} for the connection: keeps the frames.
    class Record
      attr_reader :pid, :answer
      attr_accessor :in_forked_child, :watched

      # Nothing waits to be written.
      Written = Struct.new(:written, :over)

      def initialize
        @pid = Process.pid
        @frames = []
        @lock = Mutex.new
        @answered = ConditionVariable.new
      end

      def post(data, urgent: false) # rubocop:disable Lint/UnusedMethodArgument
        frame = JSON.parse(data.dup.force_encoding(Encoding::UTF_8), max_nesting: Wire::READ_DEPTH)
        @lock.synchronize do
          @frames << frame
          @answer = frame if %w[ack fail release].include?(frame["type"])
          @answered.broadcast
        end
        Written.new(true, true)
      end

      def wait(_item, _seconds)
        true
      end

      def wait_for_answer(seconds)
        deadline = OjsWorker.now + seconds
        @lock.synchronize do
          while @answer.nil?
            left = deadline - OjsWorker.now
            return if left <= 0
            @answered.wait(@lock, left)
          end
          @answer
        end
      end

      def all(type)
        @frames.select { |frame| frame["type"] == type }
      end

      def wake; end
    end

    def initialize(worker, type, args, options)
      @options = options
      @patience = options.fetch(:patience, 60)
      @record = Record.new
      @session = Session.new(worker, @record, concurrency: 1)
      @session.before_handler = -> { begin_interruptions }
      @job = envelope(type, args)
      @due = []
    end

    # @return [Outcome]
    def run
      say({ type: "hello", protocol: PROTOCOL, worker_id: "perform", state: "running", concurrency: 1, queues: [@job["queue"]],
            max_frame: DEFAULT_MAX_FRAME })
      frame = { type: "job", job: @job }
      frame[:checkpoint] = @options[:checkpoint] unless @options[:checkpoint].nil?
      @due << [OjsWorker.now + @options[:timeout], cancel_frame("timeout")] if @options[:timeout]
      say(frame)
      outcome_of(wait_for_answer)
    ensure
      @session.close_pool
    end

    private

    def envelope(type, args)
      job = { "id" => @options.fetch(:id, "perform-1"), "type" => type, "queue" => @options.fetch(:queue, "default"),
              "attempt" => @options.fetch(:attempt, 1), "args" => args, "meta" => @options.fetch(:meta, {}) }
      job["timeout_ms"] = (@options[:timeout] * 1000).round if @options[:timeout]
      job.merge((@options[:envelope] || {}).transform_keys(&:to_s))
    end

    def say(frame)
      line = Wire.dump(frame, Wire::READ_DEPTH)
    rescue TypeError, ArgumentError, JSON::JSONError, EncodingError => e
      raise ArgumentError, "what the job is given is not JSON: #{e.class}: #{e.message}"
    else
      @session.receive(line)
    end

    # On the handler's thread, before the handler: what is to happen at once has happened when it begins.
    def begin_interruptions
      seconds = @options[:stopping]
      if seconds
        say({ type: "lifecycle", state: "terminate", reason: "sigterm", remaining_ms: (seconds * 1000).round })
        @due << [OjsWorker.now + seconds, cancel_frame("shutdown")]
      end
      return unless @options[:cancel]
      after = @options.fetch(:cancel_after, 0)
      after.zero? ? say(cancel_frame(@options[:cancel])) : @due << [OjsWorker.now + after, cancel_frame(@options[:cancel])]
    end

    def cancel_frame(reason)
      { type: "cancel", job_id: @job["id"], reason: reason, grace_ms: 1000 }
    end

    def wait_for_answer
      give_up_at = OjsWorker.now + @patience
      loop do
        at, frame = @due.min_by(&:first)
        # Not past the next look: the handler's thread may add to them.
        answer = @record.wait_for_answer([[at || give_up_at, give_up_at].min - OjsWorker.now, 0.05].min.clamp(0, 0.05))
        return answer if answer
        raise Error, "the handler has not ended within #{@patience} s (patience:)" if OjsWorker.now >= give_up_at
        next if at.nil? || OjsWorker.now < at
        @due.delete([at, frame])
        say(frame)
      end
    end

    def outcome_of(answer)
      progress = @record.all("progress").map { |frame| frame.slice("progress", "message", "data") }
      checkpoints = @record.all("checkpoint").map { |frame| frame["state"] }
      Outcome.new(outcome: answer["type"], result: answer["result"], error: answer["error"], reason: answer["reason"],
                  checkpoints: checkpoints, progress: progress)
    end
  end

  # Handlers without ojs-init, for tests.
  class Worker
    # Run the handler of a job in this process, by the same code that serves ojs-init: arguments and result go through JSON,
    # middleware is around it, errors become failures. For tests.
    #
    #     outcome = worker.perform("email.send", ["a@b.c", "hello"])
    #     assert_equal({ "sent" => true }, outcome.result)
    #
    # @param type [String] the job's type
    # @param args [Array] its arguments, JSON
    # @option options [Object] :checkpoint what an earlier attempt saved
    # @option options [Hash] :meta the job's metadata
    # @option options [Numeric] :timeout seconds after which the job is cancelled with the reason timeout
    # @option options [String] :cancel a reason (shutdown, timeout, cancelled, lost) with which it is cancelled ...
    # @option options [Numeric] :cancel_after ... so many seconds after the handler began; 0 is before its first line
    # @option options [Numeric] :stopping the worker is being shut down, with so many seconds left
    # @option options [String] :id "perform-1" if none is given
    # @option options [String] :queue "default" if none is given
    # @option options [Integer] :attempt 1 if none is given
    # @option options [Hash] :envelope further fields of the envelope
    # @option options [Numeric] :patience seconds after which a handler that has not ended is an error; 60
    # @return [Outcome]
    # @raise [ArgumentError] for an unknown option, and for what is no JSON
    # @raise [Error] when the handler does not end
    def perform(type, args = [], **options)
      OjsWorker.check_options("Worker#perform", options.except(*Perform::OPTIONS), Perform::OPTIONS)
      raise ArgumentError, "args is an array, not #{args.inspect}" unless args.is_a?(Array)
      Perform.new(self, type, args, options).run
    end
  end
end
