# frozen_string_literal: true

module OjsWorker
  # Threads that run tasks, started as they are needed. A thread that hangs does not keep the
  # process from ending.
  # @api private
  class Pool
    def initialize
      @tasks = Thread::Queue.new
      @lock = Mutex.new
      @size = 0
    end

    # Run a task on an idle thread or a new one; with `limit` threads at work, or if no more can be
    # started, it waits for one.
    # @raise [ThreadError] if there is no thread at all
    def submit(limit, &task)
      @lock.synchronize do
        start if @tasks.num_waiting <= @tasks.size && @size < limit
        @tasks << task
      end
    end

    # Let idle threads end.
    def close = @tasks.close

    private

    # The caller holds the lock.
    def start
      # A Timeout or Thread#kill that comes late must not cost a job its answer.
      Thread.new { Thread.handle_interrupt(Object => :never) { work } }.report_on_exception = false
      @size += 1
    rescue ThreadError => e
      OjsWorker.log(:error, "#{e.message}; there are #{@size} threads for jobs")
      raise if @size.zero?
    end

    def work
      Thread.current.name = "ojs-job"
      while (task = Thread.handle_interrupt(Object => :on_blocking) { @tasks.pop })
        task.call
        break if Thread.pending_interrupt? # It was meant for this job, not for the next one.
        # The next job must not see what a job left at its thread.
        Thread.current.keys.each { |name| Thread.current[name] = nil } # rubocop:disable Style/HashEachMethods
      end
    ensure
      @lock.synchronize do
        @size -= 1
        # A handler that ended its thread leaves waiting tasks behind.
        start unless @tasks.empty? || @tasks.closed?
      end
    end
  end
end
