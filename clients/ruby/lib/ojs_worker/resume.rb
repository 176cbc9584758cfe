# frozen_string_literal: true

module OjsWorker
  # What a resumable job saves: its finished steps, the positions of its loops, the handler's state.
  # @api private
  class Resume
    # Most bytes of JSON.
    MAX_BYTES = 65_536
    # Seconds between two savings of a position in a loop, at least.
    SAVE_EVERY = 5.0

    # @return [Object, nil] the handler's own state
    attr_reader :state

    def initialize(checkpoint)
      @lock = Mutex.new
      # The common form; any other checkpoint is the handler's own state.
      @used = checkpoint.is_a?(Hash) && checkpoint["ojs_resume"] == 1 &&
              checkpoint["steps"].is_a?(Array) && checkpoint["cursors"].is_a?(Hash)
      @steps, @cursors, @state = @used ? checkpoint.values_at("steps", "cursors", "state") : [[], {}, checkpoint]
      @unfinished = @cursors.keys - [""]
      @step, @names, @loops = "", [], []
      @dirty = false
      @saved_at = OjsWorker.now
    end

    # @return [Boolean] whether it is time to save a position
    def due? = OjsWorker.now >= @saved_at + SAVE_EVERY

    # Set the handler's own state and save it.
    # @yield [checkpoint] sends it
    # @raise [CheckpointTooLarge]
    def save_state(state)
      @lock.synchronize do
        state = Wire.plain(state)
        yield checkpoint(state: state)
        @state = state
      end
    end

    # Save what has changed.
    # @yield [checkpoint] sends it
    # @raise [CheckpointTooLarge]
    def save
      @lock.synchronize do
        next unless @dirty
        yield checkpoint
        @dirty = false
        @saved_at = OjsWorker.now
      end
    end

    # Begin a step.
    # @return [Array(Object), nil] the result of an earlier attempt in an Array; nil to run it
    def begin_step(name)
      raise ArgumentError, "the name of a step is a String that is not empty" unless name.is_a?(String) && name != ""
      raise ArgumentError, "the step #{name} begins within the step #{@step}" unless @step.empty?
      raise ArgumentError, "there are two steps #{name} in this job" if @names.include?(name)
      @used = true
      @names << name
      return replay(name) if @names.size <= @steps.size
      changed("an earlier attempt stopped in the step #{@unfinished[0]}") unless (@unfinished - [name]).empty?
      @unfinished.clear
      @step = name
      nil
    end

    # Keep the result of a step.
    # @return [Object] the result as a later attempt gets it
    # @raise [TypeError, ArgumentError] for a result that is no JSON
    # @raise [CheckpointTooLarge]
    def finish_step(result)
      @lock.synchronize do
        steps = @steps + [[@step, Wire.plain(result)]]
        cursors = @cursors.except(@step)
        checkpoint(steps: steps, cursors: cursors) # Raises before anything is kept.
        @steps, @cursors, @dirty = steps, cursors, true
      end
      Wire.plain(@steps.last[1])
    end

    # Leave a step. One that is not finished may run again.
    def leave_step
      @loops.delete(@step)
      @names.pop if @names.size > @steps.size
      @step = ""
    end

    # @return [Cursor] of a new loop
    def begin_loop(key)
      raise ArgumentError, "there are two loops of job.iterate: put each into its own step" if @loops.include?(@step)
      @used = true
      @loops << @step
      Cursor.new(@cursors[@step], key) { |position| move(position) }
    end

    private

    def checkpoint(steps: @steps, cursors: @cursors, state: @state)
      return state unless @used
      form = { ojs_resume: 1, steps:, cursors:, state: }
      size = JSON.generate(form).bytesize
      return form if size <= MAX_BYTES
      raise CheckpointTooLarge, "the job's steps, positions and state are #{size} bytes of JSON, at most " \
                                "#{MAX_BYTES} are saved: let steps return ids or paths, not contents"
    end

    def replay(name)
      finished, result = @steps[@names.size - 1]
      changed("the finished steps are #{@steps.map(&:first).join(", ")}") unless finished == name
      [Wire.plain(result)]
    end

    def changed(before) = raise(StepsChanged, "#{before}; the steps are now #{@names.join(", ")}")

    def move(position)
      @lock.synchronize do
        @cursors[@step] = position
        @dirty = true
      end
    end
  end

  # The position of a loop over rows: the key of the last finished row, or its index.
  # @api private
  class Cursor
    # The time of a row is the longest of so many.
    REMEMBERED = 10

    # @yield [position] keeps the position of a finished row
    def initialize(start, key, &moved)
      @key = key.is_a?(Symbol) ? key.to_proc : key
      @moved = moved
      # A backend may spell 1 as 1.0.
      @start = start.is_a?(Float) && (start % 1).zero? ? start.to_i : start
      raise StepsChanged, "an earlier attempt had a key for the rows" unless key || @start.nil? || @start.is_a?(Integer)
      @skipping = !@start.nil?
      @index, @times = -1, []
    end

    # @return [Numeric] seconds: the longest of the last rows
    def usual = @times.max || 0

    # @return [Enumerable] the rows that a callable gives for a position, none of which is skipped
    def rows_behind(callable)
      @index = @start if @skipping && @key.nil?
      @skipping = false
      callable.call(@start)
    end

    # @return [Boolean] whether an earlier attempt has finished the row
    def skip?(row)
      return false unless @skipping
      @index += 1
      @skipping = @key ? key_of(row) != @start : @index < @start
      true
    end

    # @return [Object] the position of a row. Ask before its block runs, which may change the row
    def position(row) = @key ? key_of(row) : @index + 1

    # A row is finished.
    def advance(position, seconds)
      @times.shift if @times.size == REMEMBERED
      @times << seconds
      @index += 1
      @moved.call(position)
    end

    # No rows are left.
    def finish
      raise StepsChanged, "the last row of an earlier attempt does not come any more" if @skipping && @key
    end

    private

    def key_of(row)
      key = Wire.plain(@key.call(row))
      key.nil? ? raise(TypeError, "the key of a row is nil") : key
    end
  end
end
