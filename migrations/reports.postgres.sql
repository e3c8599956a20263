-- What questions in SQL (/sql) have on PostgreSQL: a schema of their own. Its views are made from
-- the tables that can be read and from the reporting views; see world/postgres_report_schema.py.

-- A move of a world that was killed may have left them; nobody else has both tables.
DO $$ BEGIN
    IF to_regclass('report.login') IS NOT NULL AND to_regclass('report.scope') IS NOT NULL THEN
        DROP SCHEMA IF EXISTS report, report_gate CASCADE;
    END IF;
END $$;

CREATE SCHEMA report;
REVOKE ALL ON SCHEMA report FROM PUBLIC;

-- The parts of tables that an asker may read, for our own views alone: they are no barriers, so that
-- PostgreSQL joins them by their indexes.
CREATE SCHEMA report_gate;
REVOKE ALL ON SCHEMA report_gate FROM PUBLIC;

-- What the asker of a running question may read, by the process of the server that answers it: it is
-- filled before the question by the world's own role, and only that role can read it. A setting
-- (GUC) would be changed by the question itself.
CREATE UNLOGGED TABLE report.scope (
    pid integer NOT NULL,
    kind text NOT NULL,  -- admin, bags, contexts, logs
    id text NOT NULL,
    PRIMARY KEY (pid, kind, id)
);

-- What the asker may read of one kind. A function, because PostgreSQL has no statistics of a process
-- that has just begun: it took the table for one row, and compared all things with all things.
CREATE FUNCTION report.scope_of(kind text) RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER ROWS 500 SET search_path = pg_catalog, pg_temp AS $$
    SELECT scope.id FROM report.scope WHERE scope.pid = pg_backend_pid() AND scope.kind = $1
$$;

-- The role that asks, and its password, which only the world's own role can read.
CREATE TABLE report.login (role text PRIMARY KEY, password text NOT NULL);

-- Functions whose result grows without limit, or whose time grows with the product of two texts
-- while nothing can stop them: a LIKE of 8 MB and 50 kB ran for minutes beyond its time limit. Each
-- has the name of PostgreSQL's own, which it precedes in the search path. The size is tested by
-- a statement before: within one expression, PostgreSQL evaluates constants also where no row leads.

CREATE FUNCTION report.refuse_size() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'a value exceeds the limit of bytes';
END
$$;

CREATE FUNCTION report.joined(a text, b text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF octet_length(a)::bigint + octet_length(b) > 8388608 THEN PERFORM report.refuse_size(); END IF;
    RETURN textcat(a, b);
END
$$;
CREATE FUNCTION report.joined(a anynonarray, b text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT report.joined(a::text, b)
$$;
CREATE FUNCTION report.joined(a text, b anynonarray) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT report.joined(a, b::text)
$$;
CREATE OPERATOR report.|| (LEFTARG = text, RIGHTARG = text, FUNCTION = report.joined);
CREATE OPERATOR report.|| (LEFTARG = anynonarray, RIGHTARG = text, FUNCTION = report.joined);
CREATE OPERATOR report.|| (LEFTARG = text, RIGHTARG = anynonarray, FUNCTION = report.joined);

CREATE FUNCTION report.is_like(a text, b text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF octet_length(a)::bigint * octet_length(b) > 100000000 THEN PERFORM report.refuse_size(); END IF;
    RETURN textlike(a, b);
END
$$;
CREATE OPERATOR report.~~ (LEFTARG = text, RIGHTARG = text, FUNCTION = report.is_like);
CREATE FUNCTION report.is_not_like(a text, b text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF octet_length(a)::bigint * octet_length(b) > 100000000 THEN PERFORM report.refuse_size(); END IF;
    RETURN textnlike(a, b);
END
$$;
CREATE OPERATOR report.!~~ (LEFTARG = text, RIGHTARG = text, FUNCTION = report.is_not_like);
CREATE FUNCTION report.is_ilike(a text, b text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF octet_length(a)::bigint * octet_length(b) > 100000000 THEN PERFORM report.refuse_size(); END IF;
    RETURN texticlike(a, b);
END
$$;
CREATE OPERATOR report.~~* (LEFTARG = text, RIGHTARG = text, FUNCTION = report.is_ilike);
CREATE FUNCTION report.is_not_ilike(a text, b text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF octet_length(a)::bigint * octet_length(b) > 100000000 THEN PERFORM report.refuse_size(); END IF;
    RETURN texticnlike(a, b);
END
$$;
CREATE OPERATOR report.!~~* (LEFTARG = text, RIGHTARG = text, FUNCTION = report.is_not_ilike);

CREATE FUNCTION report.repeat(a text, n integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF octet_length(a)::bigint * n > 8388608 THEN PERFORM report.refuse_size(); END IF;
    RETURN pg_catalog.repeat(a, n);
END
$$;
CREATE FUNCTION report.lpad(a text, n integer, fill text DEFAULT ' ') RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF n > 2000000 THEN PERFORM report.refuse_size(); END IF;
    RETURN pg_catalog.lpad(a, n, fill);
END
$$;
CREATE FUNCTION report.rpad(a text, n integer, fill text DEFAULT ' ') RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF n > 2000000 THEN PERFORM report.refuse_size(); END IF;
    RETURN pg_catalog.rpad(a, n, fill);
END
$$;
CREATE FUNCTION report.replace(a text, old text, new text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    parts bigint := octet_length(a)::bigint / greatest(octet_length(old), 1);
BEGIN
    IF octet_length(a)::bigint * octet_length(old) > 100000000 THEN PERFORM report.refuse_size(); END IF;
    IF octet_length(a) + parts * (octet_length(new) - octet_length(old)) > 8388608 THEN PERFORM report.refuse_size(); END IF;
    RETURN pg_catalog.replace(a, old, new);
END
$$;
CREATE FUNCTION report.translate(a text, b text, new text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF octet_length(a)::bigint * octet_length(b) > 100000000 THEN PERFORM report.refuse_size(); END IF;
    RETURN pg_catalog.translate(a, b, new);
END
$$;
CREATE FUNCTION report.strpos(a text, b text) RETURNS integer
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF octet_length(a)::bigint * octet_length(b) > 100000000 THEN PERFORM report.refuse_size(); END IF;
    RETURN pg_catalog.strpos(a, b);
END
$$;
CREATE FUNCTION report.split_part(a text, b text, n integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF octet_length(a)::bigint * octet_length(b) > 100000000 THEN PERFORM report.refuse_size(); END IF;
    RETURN pg_catalog.split_part(a, b, n);
END
$$;
CREATE FUNCTION report.string_to_array(a text, b text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF octet_length(a)::bigint * coalesce(octet_length(b), 1) > 100000000 THEN PERFORM report.refuse_size(); END IF;
    RETURN pg_catalog.string_to_array(a, b);
END
$$;
CREATE FUNCTION report.btrim(a text, b text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF octet_length(a)::bigint * octet_length(b) > 100000000 THEN PERFORM report.refuse_size(); END IF;
    RETURN pg_catalog.btrim(a, b);
END
$$;
CREATE FUNCTION report.ltrim(a text, b text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF octet_length(a)::bigint * octet_length(b) > 100000000 THEN PERFORM report.refuse_size(); END IF;
    RETURN pg_catalog.ltrim(a, b);
END
$$;
CREATE FUNCTION report.rtrim(a text, b text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF octet_length(a)::bigint * octet_length(b) > 100000000 THEN PERFORM report.refuse_size(); END IF;
    RETURN pg_catalog.rtrim(a, b);
END
$$;

-- A thing's metadata (JSON) with some of its keys; of the masked ones, no values.
CREATE FUNCTION report.shown(stored text, keys text[], masked text[]) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN stored::jsonb - keys = '{}' THEN stored ELSE coalesce((
        SELECT jsonb_object_agg(pair.key, CASE
            WHEN pair.key = ANY (keys) THEN pair.value
            ELSE coalesce((
                SELECT jsonb_object_agg(inner_key, '…')
                FROM jsonb_object_keys(pair.value) AS inner_key
            ), '{}') END)
        FROM jsonb_each(stored::jsonb) AS pair
        WHERE pair.key = ANY (keys)
            OR pair.key = ANY (masked) AND jsonb_typeof(pair.value) = 'object'
    ), '{}')::text END WHERE stored IS NOT NULL
$$;
