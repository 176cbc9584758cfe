# frozen_string_literal: true

module OjsWorker
  # Threads, started as they are needed. One that hangs does not keep the process from ending.
  # @api private
  class Pool
    # @yieldreturn [Integer] most threads
    def initialize(&limit)
      @limit = limit
      @tasks = Thread::Queue.new
      @lock = Mutex.new
      @unfinished = 0
      @threads = 0
    end

    # Run it, later if all threads are taken.
    # @return [Boolean] false if there is not one thread to be had
    def submit(task)
      @lock.synchronize do
        if @threads < [@limit.call, @unfinished + 1].min
          begin
            start
          rescue ThreadError => e
            OjsWorker.log(:error) { "#{e.message}; #{@threads} threads are there" }
            return false if @threads.zero?
          end
        end
        @unfinished += 1
        # Before a thread that ends just now looks for what it leaves behind.
        @tasks << task
      end
      true
    end

    # Let the threads end that have nothing to do.
    def close
      @tasks.close
    end

    private

    def start
      number = @threads + 1
      thread = Thread.new { work }
      thread.name = "ojs-job-#{number}"
      thread.report_on_exception = false
      @threads = number
    end

    def work
      storage = fiber_storage
      while (task = @tasks.pop)
        run(task)
        forget(storage)
      end
    ensure
      @lock.synchronize do
        @threads -= 1
        # A handler that ended its thread leaves what waits to another one.
        start unless @tasks.empty? || @tasks.closed?
      end
    end

    # What a job has left at its thread is not for the next one.
    def forget(storage)
      thread = Thread.current
      thread.keys.each { |name| thread[name] = nil }
      thread.thread_variables.each { |name| thread.thread_variable_set(name, nil) }
      fiber_storage.each_key { |name| Fiber[name] = storage[name] }
    end

    # @return [Hash] what new fibers and threads inherit, from Ruby 3.2 on
    def fiber_storage
      Fiber.respond_to?(:[]=) ? Fiber.current.storage || {} : {}
    end

    def run(task)
      task.call
    ensure
      @lock.synchronize { @unfinished -= 1 }
    end
  end
end
