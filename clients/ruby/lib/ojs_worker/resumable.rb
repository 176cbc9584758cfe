# frozen_string_literal: true

module OjsWorker
  # Work that a shutdown may interrupt: a later attempt goes on where this one ended.
  module Resumable
    # Yield each row once over all attempts: a redelivered job begins behind the last row that was finished and saved.
    #
    # The position is saved at most every 5 s, and always before the job is given back or fails. When the worker is being
    # shut down and less time is left than a row usually takes, it is saved and the job released, at no cost of an attempt.
    #
    #     job.iterate(rows, key: ->(row) { row["id"] }) { |row| import(row) }
    #
    # A row is done when its block ends: for several rows at once, iterate over `rows.each_slice(100)`.
    # Rows come in the same order in each attempt. There is one loop in each step, and one outside of steps.
    # @param rows [Enumerable, #call] the rows; or what gets the position (nil first) and gives the rows behind it
    # @param key [#call, Symbol, nil] row to JSON value, or the method that gives it: the position is then the key of the last finished row, else its index
    # @yieldparam row [Object]
    # @return [nil]
    # @raise [StepsChanged] when the row at which an earlier attempt ended does not come
    def iterate(rows, key: nil)
      unless block_given?
        raise ArgumentError, "job.iterate has a block, at whose end a row is done; for several rows at once: " \
                             "job.iterate(rows.each_slice(100)) { |slice| ... }"
      end
      place = @resume.loop_over(key)
      each_row(rows, place) do |row|
        next if place.finished?(row)
        leave_if_stopping(place.usual)
        position = place.position(row)
        begun = OjsWorker.now
        yield row
        place.finish(position, OjsWorker.now - begun)
        save_progress if @resume.due?
      end
      place.end
    end

    # Run a part of the job once over all attempts: in a later one its block is not called, and its result is the saved one.
    #
    #     size = job.step("resize") { resize(picture) }
    #
    # The end of a step is a checkpoint. Steps come in the same order in each attempt, one after the other, none within another.
    # @param name [String] its name, unlike those of the job's other steps
    # @yieldreturn [Object] its result, anything that is JSON, and small
    # @return [Object] the result as JSON has it: symbols are strings
    # @raise [StepsChanged] when an earlier attempt had other steps, or another order
    # @raise [CheckpointTooLarge] when all that is kept is more than 64 KiB
    def step(name)
      raise ArgumentError, "a step has a block: job.step(#{name.inspect}) { ... }" unless block_given?
      finished, result = @resume.begin_step(name)
      return result if finished
      result = run_step(name) { yield }
      save_progress
      result
    end

    # Save what is not saved yet.
    # @api private
    def save_progress
      wait_until_written(@resume.save { |text| send_checkpoint(text) })
    end

    # The handler ended without a result: what it has done so far must not be done again.
    # @api private
    def save_at_end
      save_progress unless @cancel_reason == "lost"
    rescue StandardError => e
      OjsWorker.log(:warn) { "job #{Wire.line(@id)}: where it stopped is not saved: #{e.class}: #{Wire.clean(e.message, 500)}" }
    end

    # What ended the handler at a row or step.
    # @api private
    def ending
      @resume.ending
    end

    # Before the handler: what lets a middleware call it again.
    # @api private
    def mark
      @resume.mark
    end

    private

    def run_step(name)
      error = Retry.new("step #{name} was left by a break, return or throw: a step that is finished ends its block, with `next` where need be")
      leave_if_stopping(@session.worker.usual_step(@type, name))
      begun = OjsWorker.now
      result = @resume.end_step(yield)
      @session.worker.note_step(@type, name, OjsWorker.now - begun)
      error = nil
      result
    rescue Exception => e # rubocop:disable Lint/RescueException
      error = e
      raise
    ensure
      @resume.fail_step(error) if error
    end

    def send_checkpoint(text)
      @session.post_about(self, Wire.frame("checkpoint", @id, %("state":#{text})))
    end

    # What could not be sent is tried again before the job's end.
    def wait_until_written(sent)
      @session.wait_until_written(sent) if sent
    rescue Stalled
      @resume.unsaved
      raise
    end

    def each_row(rows, place, &block)
      if rows.respond_to?(:call) && !rows.respond_to?(:each)
        rows = rows.call(Wire.copy(place.start))
        place.begin_behind_start
      end
      # `each_entry`: what yields several values is one row.
      rows.respond_to?(:each_entry) ? rows.each_entry(&block) : rows.each(&block)
    end

    # Before a row or step.
    def leave_if_stopping(usual)
      @resume.end_with(Cancelled.new(@cancel_reason)) if @resume.ending || %w[timeout cancelled lost].include?(@cancel_reason)
      left = remaining
      return unless @cancel_reason || (left && left < [usual * Resume::USUAL_TIMES, Resume::LEAST_NOTICE].max)
      @resume.end_with(Release.new(Resume::REASON))
    end
  end
end
