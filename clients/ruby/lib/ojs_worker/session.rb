# frozen_string_literal: true

module OjsWorker
  # One connection's life: who calls {#serve} reads and writes, and never waits for a handler.
  # @api private
  class Session
    include Incoming
    include Answers

    # Seconds that handlers get to end when ojs-init has closed the connection.
    EOF_GRACE = 1.0
    # Seconds that it has to say so, after we said on our own that we take no more jobs: one may be on its way.
    SETTLE_TIME = 2.0
    # The same after a signal, when there is less time.
    SIGNAL_SETTLE_TIME = 0.25

    attr_reader :worker, :state, :concurrency, :worker_id, :link
    # What ends the process, raised in a handler: SystemExit, Interrupt and the like.
    attr_reader :exit_error
    # Called on a handler's thread before the handler; for {Worker#perform}.
    attr_writer :before_handler

    def initialize(worker, link, concurrency:, stop_grace: STOP_GRACE, parent: nil)
      @worker = worker
      @link = link
      @concurrency = concurrency
      @stop_grace = stop_grace
      @parent = parent
      @link.watched = parent&.io
      @state = "running"
      @max_frame = DEFAULT_MAX_FRAME
      # Guards `@held` and `@answers`; taken before the link's own lock, never after it.
      @lock = Mutex.new
      @changed = ConditionVariable.new
      @held = {}
      @answers = {}
      @said = {}
      @pool = Pool.new { @concurrency }
      @greeted = @stop_asked = @stopping = @signalled = @was_signalled = @retiring = false
      @exit_error = nil
    end

    # Until there is nothing left to do.
    def serve(path)
      return unless connect(path)
      loop do
        stop_if_asked
        break if may_end?
        @link.round(patience).each { |line| on_line(line) }
        break if @link.eof?
        look_at_parent if @parent
      end
      return if @over
      stop_if_asked # a signal that came with the end
      on_eof
    ensure
      @link.close
      close_pool
    end

    # What comes in where there is no connection: for {Worker#perform}.
    def receive(line)
      on_line(line)
    end

    # Let the threads end that have nothing to do.
    def close_pool
      @pool.close
    end

    # From any thread or signal handler: no lock.
    def stop
      @stop_asked = true
      @link.wake
    end

    # From a signal handler.
    def signalled
      @signalled = true
      @link.wake
    end

    # @return [Boolean] whether no more jobs are taken, for whatever reason
    def ending?
      @stopping || @state == "terminate"
    end

    # @return [Boolean] whether ojs-init has said hello
    def greeted?
      @greeted
    end

    def remaining
      @deadline && [0.0, @deadline - OjsWorker.now].max
    end

    # Wait for something that a frame, or the end of the connection, brings about.
    def wait_until(timeout)
      deadline = timeout && (OjsWorker.now + timeout)
      @lock.synchronize do
        until yield
          left = deadline && (deadline - OjsWorker.now)
          break if left && left <= 0
          @changed.wait(@lock, left)
        end
      end
    end

    # Send something about a job, if this process may say that about it now.
    # @return [Link::Outgoing] for {#wait_until_written}
    def post_about(job, data)
      unless @link.pid == Process.pid
        raise ForkedProcess, "the connection to ojs-init belongs to process #{@link.pid}, this is process #{Process.pid}, forked " \
                             "from it: leave the job's progress to the parent, or run a worker of its own in each process"
      end
      unless fits?(data)
        raise ArgumentError, "#{data.bytesize} bytes are more than ojs-init takes at once (#{@max_frame})"
      end
      @lock.synchronize do
        raise Error, "job #{job.id} was answered already" unless @held[job.id].equal?(job)
        @link.post(data)
      end
    end

    # @raise [Stalled] when it is not written, and will not be
    def wait_until_written(item)
      raise Stalled, "ojs-init has not read for #{WRITE_TIMEOUT} s" unless @link.wait(item, WRITE_TIMEOUT)
    end

    private

    def connect(path)
      @link.connect(path)
      true
    rescue SystemCallError, ArgumentError => e
      # An ojs-init that has asked us to end may be gone.
      @stopping = @signalled || @stop_asked
      raise NotUnderOjsInit, "cannot connect to ojs-init at #{path} (#{ENV_SOCKET}): #{e.message}" unless @stopping
      false
    end

    def fits?(data)
      data.bytesize - 1 <= @max_frame
    end

    def stop_if_asked
      if @signalled
        # ojs-init sends SIGTERM to those that are idle, and to those that it gives up on.
        @signalled = @retiring = false
        @was_signalled = @stop_asked = true
        @settled_at = [@settled_at, OjsWorker.now + SIGNAL_SETTLE_TIME].min if @settled_at
        @cut_off_at ||= OjsWorker.now + @stop_grace if @stop_grace
        cancel_all("shutdown")
      end
      begin_stop if @stop_asked && !@stopping
      return unless @cut_off_at && OjsWorker.now >= @cut_off_at && @held.any?
      OjsWorker.log(:error) { "#{@held.size} handlers have not ended within #{@stop_grace} s of a signal" }
      OjsWorker.end_now(CUT_OFF_STATUS)
    end

    # Whether to go on in another process, or to make place for it.
    def look_at_parent
      @parent.look
      return unless @link.watched && @link.watched.wait_readable(0)
      if @parent.lets_go?
        @retiring = @stop_asked = true
      end
      @link.watched = @parent.io
    end

    # @return [Boolean] whether a job that was on its way is still taken: this process only makes place for another one
    def retiring?
      @retiring && @state != "terminate" && !@cut_off_at && @held.size < @concurrency
    end

    def begin_stop
      @stopping = true
      return if !@greeted || @state == "terminate"
      @pause = @link.post(ready_frame(0))
      # ojs-init answers this behind the last job that it sends us.
      @pause = @link.post(Wire.frame("heartbeat", NOBODYS_JOB)) unless @was_signalled
    rescue ConnectionLost
      nil
    end

    # Until when to wait for a job that was on its way as we said that we take no more.
    def settled_at
      return if @pause.nil?
      @settled_at ||= OjsWorker.now + settle_time if @pause.over
      @settled_at
    end

    def settle_time
      @was_signalled ? SIGNAL_SETTLE_TIME : SETTLE_TIME
    end

    def may_end?
      return false unless ending?
      @lock.synchronize do
        @flushing_since = nil if @held.any? || @link.flushed?
        return false if @held.any?
        return @over = @state == "terminate" || settled_at.nil? || OjsWorker.now >= settled_at if @link.flushed?
        @flushing_since ||= OjsWorker.now
      end
      return false if OjsWorker.now < @flushing_since + WRITE_TIMEOUT
      raise Stalled, "ojs-init has not read for #{WRITE_TIMEOUT} s; ending with answers that it has not got"
    end

    # How long nothing needs to happen by itself, in seconds.
    def patience
      return @parent&.patience unless ending?
      at = if @held.any? then @cut_off_at
           elsif @flushing_since then @flushing_since + WRITE_TIMEOUT
           else settled_at || 0
           end
      at && [0, at - OjsWorker.now].max
    end

    def on_eof
      held = cancel_all("lost")
      if held.positive?
        OjsWorker.log(:error) { "ojs-init has closed the connection: #{held} jobs are abandoned" }
        wait_until(EOF_GRACE) { @held.empty? }
        if @held.any?
          OjsWorker.log(:fatal) { "handlers have not ended within #{EOF_GRACE} s of that: the process ends now" }
          OjsWorker.end_now(1)
        end
      elsif ending?
        return
      end
      raise ConnectionLost, "ojs-init has closed the connection"
    end

    def cancel_all(reason)
      jobs = @lock.synchronize { @held.values }
      jobs.each { |job| cancel(job, reason) }
      jobs.size
    end

    def cancel(job, reason)
      return if job.cancelled?
      OjsWorker.log(:info) { "job #{Wire.line(job.id)} is cancelled: #{Wire.line(reason)}" }
      @lock.synchronize do
        job.cancel(reason)
        @changed.broadcast
      end
    end

    def ready_frame(concurrency)
      Wire.frame("ready", protocol: PROTOCOL, concurrency: concurrency, types: @worker.types, ping: true, ok: false, client: CLIENT)
    end
  end
end
