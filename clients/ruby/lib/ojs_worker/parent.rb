# frozen_string_literal: true

require "etc"

module OjsWorker
  # A child's line to the process that forked it: what it tells, and when it wants to be replaced.
  # @api private
  class Parent
    # Before so many jobs, and so many seconds, memory does not count.
    MEMORY_JOBS = 10
    MEMORY_AGE = 60.0
    # Seconds between two looks at the memory.
    LOOK_EVERY = 1.0

    attr_reader :io

    def initialize(io, max_jobs: nil, max_age: nil, max_memory: nil)
      @io = io
      @max_jobs = max_jobs
      @max_age = max_age
      @max_memory = max_memory
      @started_at = OjsWorker.now
      @jobs = 0
      @looked_at = 0.0
      @asked = false
    end

    # The connection takes jobs.
    def ready
      tell("ready")
      return unless @max_memory && resident >= @max_memory
      # Another one would be no smaller.
      tell("memory #{resident}")
      @max_memory = nil
    end

    def terminating
      tell("terminating")
    end

    def lost
      tell("lost")
    end

    # A job is answered. Called with the session's lock held.
    def job_done
      @jobs += 1
    end

    # Ask for a replacement when it is time to.
    def look
      return if @asked || !worn?
      @asked = true
      tell("worn")
    end

    # How long nothing needs to be looked at, in seconds.
    def patience
      return if @asked || (@max_age.nil? && @max_memory.nil?)
      [@max_age && (@started_at + @max_age - OjsWorker.now), @max_memory && LOOK_EVERY].compact.min.clamp(0, 3600)
    end

    # @return [Boolean] whether the replacement is there and this process may go
    def lets_go?
      word = @io.read_nonblock(16, exception: false)
      @io = nil if word.nil?
      word.is_a?(String)
    rescue SystemCallError, IOError
      @io = nil
      false
    end

    private

    def tell(word)
      @io&.write_nonblock("#{word}\n", exception: false)
    rescue SystemCallError, IOError
      nil # whoever forked us is gone, and ojs-init sees to that
    end

    def worn?
      age = OjsWorker.now - @started_at
      return true if (@max_jobs && @jobs >= @max_jobs) || (@max_age && age >= @max_age)
      return false unless @max_memory && (@jobs >= MEMORY_JOBS || age >= MEMORY_AGE)
      return false if OjsWorker.now < @looked_at + LOOK_EVERY
      @looked_at = OjsWorker.now
      resident >= @max_memory
    end

    # @return [Integer] bytes of memory that the process has, shared ones included
    def resident
      File.read("/proc/self/statm").split[1].to_i * Etc.sysconf(Etc::SC_PAGESIZE)
    rescue SystemCallError
      0
    end
  end
end
