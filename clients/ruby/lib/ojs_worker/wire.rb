# frozen_string_literal: true

require "json"

module OjsWorker
  # Frames of the worker socket as text.
  # @api private
  module Wire
    # Nesting of a frame that is written, the frame included; ojs-init accepts no more.
    WRITE_DEPTH = 100
    # Nesting of a frame that is read. Ruby's parser is recursive, so it needs a bound.
    READ_DEPTH = 400
    # The classes of an object's keys.
    KEYS = [String, Symbol, Integer].freeze
    # The id in front of a job that Ruby's parser refuses. Beyond that nobody knows whose an `id` is.
    JOB_ID = /\A\{"type":"job","job_id":("(?:[^"\\]|\\.)*")/

    # A line that is no frame. The message quotes nothing of the line.
    class Unreadable < StandardError; end

    module_function

    # @return [Hash] the frame in a line
    # @raise [Unreadable]
    def parse(line)
      line.force_encoding(Encoding::UTF_8)
      raise Unreadable, "it is not UTF-8" unless line.valid_encoding?
      frame = JSON.parse(line, max_nesting: READ_DEPTH)
      raise Unreadable, "it is no object" unless frame.is_a?(Hash)
      frame
    rescue JSON::ParserError => e
      raise Unreadable, e.is_a?(JSON::NestingError) ? "it is nested deeper than #{READ_DEPTH}" : "it is not JSON"
    end

    # A frame as a line. `type` and `job_id` come first: ojs-init reads them even if the rest of the
    # line is too long or broken.
    # @param fields [Hash] further members
    def frame(type, job_id = nil, **fields)
      JSON.generate({ type:, job_id: }.compact.update(fields), max_nesting: WRITE_DEPTH) << "\n"
    end

    # @param types [Array<String>, nil] nil for all
    # @param ping [Boolean] whether the process is checked on while it holds jobs. A handler that
    #   keeps the interpreter to itself would look like one that hangs
    # @raise [Error] if it is longer than a frame may be
    def ready(types, concurrency, max_frame, ping: false)
      line = frame("ready", protocol: PROTOCOL, concurrency:, **{ types: }.compact, ping:, ok: false, client: CLIENT)
      size = line.bytesize - 1
      return line if size <= (max_frame || size)
      raise Error, "`ready` with its job types has #{size} bytes, and ojs-init takes #{max_frame} (worker.max_frame)"
    end

    # Check that a value is JSON. Ruby's generator would write any object as the text of its `to_s`.
    # The generator itself refuses NaN, broken text and what is nested too deep.
    # @raise [TypeError]
    def check(value)
      case value
      when nil, true, false, Integer, Float, String, Symbol then value
      when Array then value.each { |item| check(item) }
      when Hash
        value.each_key { |key| raise TypeError, "a key of the class #{key.class}" unless KEYS.include?(key.class) }
        value.each_value { |item| check(item) }
      else raise TypeError, "an object of the class #{value.class}"
      end
    end

    # A value as it is read back from JSON: a copy, symbols are strings.
    def plain(value)
      JSON.parse(JSON.generate([check(value)], max_nesting: READ_DEPTH), max_nesting: READ_DEPTH)[0]
    end

    # A text in UTF-8, whatever the encoding and the `to_s` of the value are.
    def text(value)
      text = String(value)
      text = text.dup.force_encoding(Encoding::UTF_8) if text.encoding == Encoding::BINARY
      text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace, replace: "?").scrub("?")
    rescue StandardError => e
      "(cannot be shown: #{e.class})"
    end

    # A short text for a line of the log: without control characters.
    def line(value, limit = 10_000) = text(value)[0, limit].gsub(/[[:cntrl:]]/) { |character| character.dump[1..-2] }
  end
end
