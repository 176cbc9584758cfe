# frozen_string_literal: true

module OjsWorker
  # What a job that is done in parts keeps: its finished steps and the positions of its loops. No input or output.
  # @api private
  class Resume
    VERSION = 1
    # Most bytes of JSON that a resumable job keeps.
    MAX_BYTES = 64 * 1024
    # Seconds between two savings of a position, at least.
    SAVE_EVERY = 5.0
    # Seconds before the end of a shutdown in which nothing new is begun, at least.
    LEAST_NOTICE = 0.25
    # So many times what a row or step took is kept free for the next one.
    USUAL_TIMES = 1.5
    REASON = "resumes at its checkpoint"

    # What the program's own checkpoint is.
    attr_accessor :user
    # The step that runs; empty outside of steps.
    attr_reader :step
    # What ended the handler at a row or step; nil if nothing did. It may have caught that.
    attr_reader :ending

    def initialize(checkpoint)
      @user = checkpoint
      @used = @dirty = false
      @step = ""
      @finished = []
      @cursors = {}
      @replayed = 0
      @begun = []
      @loops = {}
      @ending = @failed = @sent = nil
      @lock = Mutex.new
      @saved_at = OjsWorker.now
      return unless saved_form?(checkpoint)
      @used = true
      @user = checkpoint["state"]
      @finished = checkpoint["steps"].dup
      @cursors = checkpoint["cursors"].dup
    end

    # @return [Boolean] whether the job has steps or loops, so that its checkpoint has the common form
    def used?
      @used
    end

    # What was handed on to be saved was not.
    def unsaved
      @dirty = used?
    end

    # @return [Boolean] whether it is time to save a position
    def due?
      OjsWorker.now >= @saved_at + SAVE_EVERY
    end

    # Keep what the program saves itself, and hand it on.
    # @param text [String] that, as JSON
    # @yield [text] the checkpoint
    # @return [Object] what the block returns
    # @raise [CheckpointTooLarge] or why else it cannot be saved: then it is not kept, for it must not spoil what is saved next
    def keep(text, &block)
      guarded do
        before = @user
        @user = JSON.parse(text)
        begin
          used? ? hand_on(&block) : @sent = yield(text)
        rescue StandardError
          @user = before
          raise
        end
      end
    end

    # Hand on what is not saved yet.
    # @yield [text] the checkpoint, as JSON
    # @return [Object, nil] what the block returned for the newest that was handed on
    # @raise [CheckpointTooLarge]
    def save(&block)
      guarded { @dirty ? hand_on(&block) : @sent }
    end

    # @return [String] the checkpoint, as JSON
    # @raise [CheckpointTooLarge]
    def form
      text = Wire.dump({ "ojs_resume" => VERSION, "steps" => @finished, "cursors" => @cursors, "state" => @user })
      if text.bytesize > MAX_BYTES
        raise CheckpointTooLarge, "the job's steps, positions and state have #{text.bytesize} bytes of JSON, at most #{MAX_BYTES} are " \
                                  "kept: let steps return ids or paths, not contents"
      end
      text
    end

    # End the handler here. Whoever catches that gets the same error at each further row or step.
    # @raise [Exception] what ended it first
    def end_with(error)
      raise @ending ||= error
    end

    # For a middleware that calls its handler again: what has begun since may come again.
    # @return [Proc] to be called before that; it raises what ended the handler
    def mark
      begun = @begun.size
      kept = [@step, @replayed, @loops.dup, @failed]
      lambda do
        raise @ending if @ending
        @begun = @begun.first(begun)
        @step, @replayed, @loops, @failed = kept
        @loops = @loops.dup
      end
    end

    # Begin a step.
    # @return [Array(Boolean, Object)] whether it is finished already, and with which result
    def begin_step(name)
      check_step(name)
      raise @ending if @ending
      raise @failed.error if @failed && @failed.step != name
      @begun << name
      @used = true
      if @replayed < @finished.size
        before, result = @finished[@replayed]
        changed("the steps that were finished before are #{@finished.map(&:first).join(", ")}") unless before == name
        @replayed += 1
        return [true, Wire.copy(result)]
      end
      # A step in which an earlier attempt stopped has to be the next one.
      open = @cursors.keys.find { |step| !step.empty? && !@begun.include?(step) }
      changed("an earlier attempt was in the step #{open}") if open
      @failed = nil
      @step = name
      [false, nil]
    end

    # The step is finished.
    # @return [Object] its result as a later attempt would get it
    # @raise [Discard] when it cannot be kept: then it is not finished
    def end_step(result)
      raise @ending if @ending # caught in the step: not all of its rows are done
      kept = plain(result)
      guarded { add_step(kept) }
      @replayed = @finished.size
      @step = ""
      Wire.copy(kept)
    rescue TypeError, ArgumentError, JSON::JSONError, EncodingError => e
      raise Discard.new("the handler's result is not JSON: of step #{@step.inspect}: #{e.class}: #{Wire.clean(e.message, 500)}",
                        type: "InvalidResult")
    end

    # The step that was begun ends without a result: no other one comes after it, but it may come again.
    def fail_step(error)
      @failed = FailedStep.new(@step, error)
      @begun.delete(@step)
      @loops.delete(@step)
      @step = ""
    end

    # Begin a loop over rows.
    def loop_over(key)
      raise @ending if @ending
      if @loops[@step]
        place = @step.empty? ? "outside of a step" : "in step #{@step.inspect}"
        raise ArgumentError, "there are two loops of job.iterate #{place}: put each into a step of its own"
      end
      @loops[@step] = true
      @used = true
      Rows.new(self, @step, key)
    end

    # @return [Object, nil] the position of the last finished row
    def position(step)
      @cursors[step]
    end

    def move(step, position)
      guarded do
        @cursors[step] = position
        @dirty = true
      end
    end

    # @return [Object] a value as it is read back from a checkpoint
    def plain(value)
      value.is_a?(Integer) ? value : JSON.parse(Wire.dump(value))
    end

    # A step that ended without a result, and with what.
    FailedStep = Struct.new(:step, :error)

    private

    # What the threads of a handler change and save: what is sent last is the newest. Nothing in it waits, and nothing
    # interrupts it: half a change would be what Timeout.timeout or Thread#kill leaves.
    def guarded(&block)
      Thread.handle_interrupt(Object => :never) { @lock.synchronize(&block) }
    end

    def hand_on
      text = form
      @sent = yield text
      @dirty = false
      @saved_at = OjsWorker.now
      @sent
    end

    def add_step(result)
      cursor = @cursors.delete(@step)
      @finished << [@step, result]
      form
      @dirty = true
    rescue StandardError
      @finished.pop
      @cursors[@step] = cursor unless cursor.nil?
      raise
    end

    def changed(before)
      end_with(StepsChanged.new("#{before}; now they come as #{@begun.join(", ")}"))
    end

    # Anything else is the program's own.
    def saved_form?(checkpoint)
      return false unless checkpoint.is_a?(Hash) && checkpoint["ojs_resume"] == VERSION
      steps = checkpoint["steps"]
      checkpoint["cursors"].is_a?(Hash) && steps.is_a?(Array) &&
        steps.all? { |step| step.is_a?(Array) && step.size == 2 && step[0].is_a?(String) }
    end

    def check_step(name)
      raise ArgumentError, "a step's name is a string that is not empty, not #{name.inspect}" unless name.is_a?(String) && !name.empty?
      unless @step.empty?
        raise ArgumentError, "step #{name.inspect} begins within step #{@step.inspect}: steps come one after the other"
      end
      raise ArgumentError, "there are two steps #{name.inspect} in this job: each needs a name of its own" if @begun.include?(name)
    end

    # One loop over rows.
    class Rows
      REMEMBERED = 10

      # @return [Object, nil] the position at which it goes on; nil at the beginning
      attr_reader :start

      def initialize(resume, step, key)
        @resume = resume
        @step = step
        @key = key.is_a?(Symbol) ? key.to_proc : key
        @index = -1
        @times = []
        @start = resume.position(step)
        # A backend may spell an index 1.0.
        @start = @start.to_i if key.nil? && @start.is_a?(Float) && @start.finite? && @start == @start.to_i
        @skips = !@start.nil?
        return if key || !@skips || @start.is_a?(Integer)
        resume.end_with(StepsChanged.new("the rows were counted by a key before (#{Wire.clean(@start.inspect, 100)}), and now they are not"))
      end

      # @return [Numeric] the longest of the last rows, in seconds
      def usual
        @times.max || 0
      end

      # The rows were asked for from {#start} on: none is skipped.
      def begin_behind_start
        @index = @start if @skips && @key.nil?
        @skips = false
      end

      # @return [Boolean] whether an earlier attempt has done this row
      def finished?(row)
        return false unless @skips
        if @key
          @skips = key_of(row) != @start
        else
          @index += 1
          @skips = @index < @start
        end
        true
      end

      # @return [Object] where a row is; asked before it is done, which may change it
      def position(row)
        @key ? key_of(row) : @index + 1
      end

      # A row is done.
      def finish(position, seconds)
        @times.shift if @times.size == REMEMBERED
        @times << seconds
        @index += 1
        @resume.move(@step, position)
      end

      # No more rows come.
      def end
        return unless @skips && @key
        @resume.end_with(StepsChanged.new("the row at which an earlier attempt ended, #{Wire.clean(@start.inspect, 100)}, " \
                                          "is not among the rows any more"))
      end

      private

      def key_of(row)
        key = @key.call(row)
        raise TypeError, "the key of a row is nil: it cannot be told from no position" if key.nil?
        @resume.plain(key)
      end
    end
  end
end
