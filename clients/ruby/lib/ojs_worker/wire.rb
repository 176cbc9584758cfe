# frozen_string_literal: true

require "json"
require "strscan"

module OjsWorker
  # Frames as text: JSON that every parser takes.
  # @api private
  module Wire
    # How deep a frame may be nested, itself included.
    MAX_DEPTH = 100
    # How deep the frames that we read may be; Ruby's parser is recursive.
    READ_DEPTH = 400
    TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]/m.freeze

    # A line that is no frame. Its message quotes nothing of the line.
    class Unreadable < StandardError; end

    module_function

    # @return [Hash] the frame that stands in a line
    # @raise [Unreadable]
    def parse(line)
      line.force_encoding(Encoding::UTF_8)
      raise Unreadable, "it is not UTF-8" unless line.valid_encoding?
      frame = JSON.parse(line, max_nesting: READ_DEPTH)
      raise Unreadable, "it is no object" unless frame.is_a?(Hash)
      frame
    rescue JSON::NestingError
      raise Unreadable, "it is nested deeper than #{READ_DEPTH}"
    rescue JSON::ParserError
      raise Unreadable, "it is not JSON"
    end

    # JSON of a value that has nothing but JSON in it.
    # @param depth [Integer] how deep it may be nested
    # @raise [TypeError, ArgumentError, JSON::JSONError, EncodingError] when it has something else
    def dump(value, depth = MAX_DEPTH - 1)
      check(value, depth)
      text = JSON.generate(value, max_nesting: depth)
      raise ArgumentError, "a string is not UTF-8" unless text.valid_encoding?
      text
    end

    # Ruby's generator would write any object as the text of its `to_s`.
    def check(value, room)
      case value
      when nil, true, false, Integer, String, Symbol then nil
      when Float
        raise ArgumentError, "#{value} is no number in JSON" unless value.finite?
      when Array
        raise ArgumentError, "nested too deep" if room.zero?
        value.each { |inner| check(inner, room - 1) }
      when Hash
        raise ArgumentError, "nested too deep" if room.zero?
        value.each do |key, inner|
          case key
          when String, Symbol, Integer then check(inner, room - 1)
          else raise TypeError, "a key of the class #{key.class}"
          end
        end
      else
        raise TypeError, "an object of the class #{value.class}"
      end
    end

    # Of what was read from JSON: the handler may change its own, and that must not change what is saved.
    def copy(value)
      case value
      when Array then value.map { |inner| copy(inner) }
      when Hash then value.transform_values { |inner| copy(inner) }
      when String then value.dup
      else value
      end
    end

    # A frame, ready to be written.
    # @param raw [Array<String>] further members as JSON text
    # @param fields [Hash] further members; those that are nil are left out
    def frame(kind, job_id = nil, *raw, **fields)
      head = { "type" => kind }
      head["job_id"] = job_id unless job_id.nil?
      fields.each { |name, value| head[name.name] = value unless value.nil? }
      text = dump(head, MAX_DEPTH)
      text = "#{text.chop},#{raw.join(",")}}" unless raw.empty?
      (text << "\n").force_encoding(Encoding::BINARY)
    end

    # The id of the job in a frame that {parse} does not take: nested too deep, most likely.
    # @return [String, nil]
    def salvage_job_id(line)
      depth = 0
      keys = []
      last = '""'
      each_token(line) do |token|
        case token
        when "{", "["
          depth += 1
          keys[depth] = nil if depth <= 2
        when "}", "]" then depth -= 1
        when ":" then keys[depth] = text_of(last) if depth <= 2
        when "," then keys[depth] = nil if depth <= 2
        else
          return text_of(token) if depth == 2 && keys[1] == "job" && keys[2] == "id"
          last = token
        end
      end
      nil
    end

    # @return [String, nil] the text of a string token; nil for half of a surrogate pair, which Ruby does not take
    def text_of(token)
      JSON.parse(token)
    rescue JSON::JSONError
      nil
    end

    # The text of a member of a frame that is an object, byte for byte.
    # @return [String, nil]
    def raw_object(line, name)
      depth = 0
      key = last = start = found = nil
      each_token(line) do |token, at|
        case token
        when "{", "["
          start = at if depth == 1 && key == name
          depth += 1
        when "}", "]"
          depth -= 1
          if depth == 1 && start
            found = line.byteslice(start, at + 1 - start)
            start = nil
          end
        when ":" then key = JSON.parse(last) if depth == 1
        when "," then key = nil if depth == 1
        else last = token
        end
      end
      found
    end

    def each_token(line)
      scanner = StringScanner.new(line.dup.force_encoding(Encoding::UTF_8).scrub("?"))
      while scanner.skip_until(TOKEN)
        token = scanner.matched
        yield token, scanner.pos - token.bytesize
      end
    end

    # A text that fits into a frame: whole characters, not too many.
    def clean(value, limit)
      text = begin
        String(value)
      rescue StandardError => e # a to_s of the program's own
        "(its message cannot be shown: #{e.class})"
      end
      text = text.encoding == Encoding::BINARY ? text.dup.force_encoding(Encoding::UTF_8) : utf8(text)
      text = text.scrub("?")
      text.length > limit ? "#{text[0, limit - 3]}..." : text
    end

    # The same for a line of the log: what comes from elsewhere begins no line of its own.
    def line(value, limit = 200)
      clean(value, limit).gsub(/[[:cntrl:]]/) { |character| character.dump[1..-2] }
    end

    def utf8(text)
      text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace, replace: "?")
    end
  end
end
