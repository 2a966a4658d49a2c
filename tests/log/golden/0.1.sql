BEGIN TRANSACTION;
CREATE TABLE event (
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        time REAL NOT NULL,
        kind TEXT NOT NULL,
        body BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (session, seq)
    ) WITHOUT ROWID;
INSERT INTO "event" VALUES(1,1,1.79493430964504313469e+09,'began',CAST('{"session":"dddfc535944a0dcd5d93e999b4126c0c","version":"0.1.0"}' AS BLOB),226142509);
INSERT INTO "event" VALUES(1,2,1.79493430964504313469e+09,'settings',CAST('{"model":"scripted","system":"Be brief.","tools":["look"],"limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":""}' AS BLOB),214267443);
INSERT INTO "event" VALUES(1,3,1.79493430970894479752e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"What is in the attic?"}]}}' AS BLOB),2452241086);
INSERT INTO "event" VALUES(1,4,1.79493430971201300621e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"look","input":{"place":"the attic"}}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"tool_use","model":"scripted","first_token":0.0}' AS BLOB),3472435148);
INSERT INTO "event" VALUES(1,5,1.79493430971201300621e+09,'tool_started',CAST('{"call_id":"call_1","name":"look","effect":"read","key":"dddfc535944a0dcd5d93e999b4126c0c/call_1","input":{"place":"the attic"}}' AS BLOB),2028991566);
INSERT INTO "event" VALUES(1,6,1.79493430975146532059e+09,'tool_finished',CAST('{"result":{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"the attic is empty."}]}}' AS BLOB),225299598);
INSERT INTO "event" VALUES(1,7,1.79493430975511622429e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"The attic is empty."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),198220455);
INSERT INTO "event" VALUES(1,8,1.79493430976377892494e+09,'settings',CAST('{"title":"The attic"}' AS BLOB),3919759331);
INSERT INTO "event" VALUES(1,9,1.79493430976489472389e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"What else?"}]}}' AS BLOB),253144854);
INSERT INTO "event" VALUES(1,10,1.79493430976775074005e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"Nothing else."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),2525679918);
INSERT INTO "event" VALUES(2,1,1.7949343097959587574e+09,'began',CAST('{"session":"4a3a52a0b45c2e3795312e1985583d9f","version":"0.1.0"}' AS BLOB),2514113448);
INSERT INTO "event" VALUES(2,2,1.7949343097959587574e+09,'settings',CAST('{"model":"scripted","system":"","limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":""}' AS BLOB),539482937);
INSERT INTO "event" VALUES(2,3,1.79493430980753397942e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"Count."}]}}' AS BLOB),2439431459);
INSERT INTO "event" VALUES(2,4,1.79493430981083679199e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"One."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),3249294003);
INSERT INTO "event" VALUES(2,5,1.79493430981992554665e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"Go on."}]}}' AS BLOB),280229867);
INSERT INTO "event" VALUES(2,6,1.79493430982375526428e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"Two."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),3147871901);
INSERT INTO "event" VALUES(2,7,1.79493430986379313469e+09,'compacted',CAST('{"summary":{"role":"user","content":[{"type":"text","text":"[The earlier part of this conversation was replaced by this summary to save room. Nothing is lost: Recall(query=\"…\") searches the earlier messages and results, and Recall(reference=\"…\") reads one of them whole. Use it when a detail is missing, and do not guess. The newest messages follow.]\n\n## Goal\nCount."},{"type":"text","text":"The newest messages of the user before this point, verbatim:\n\n> Count.\n\n> Go on."}]},"kept":1,"reason":"manual","tokens_before":110,"tokens_after":591,"usage":{"input_tokens":100,"output_tokens":10},"model":"scripted"}' AS BLOB),3515051789);
INSERT INTO "event" VALUES(2,8,1.79493430987951111794e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"Go on."}]}}' AS BLOB),3560616319);
INSERT INTO "event" VALUES(2,9,1.79493430988360929489e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"Three."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),677567470);
INSERT INTO "event" VALUES(3,1,1.79493430989759612083e+09,'began',CAST('{"session":"902c9ae9e0d7720c718c75c041fa1ec0","version":"0.1.0"}' AS BLOB),864424717);
INSERT INTO "event" VALUES(3,2,1.79493430989759612083e+09,'settings',CAST('{"model":"scripted","system":"","tools":["look","leave"],"limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":""}' AS BLOB),1285586728);
INSERT INTO "event" VALUES(3,3,1.79493430991478610039e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"Look left, then leave."}]}}' AS BLOB),94652049);
INSERT INTO "event" VALUES(3,4,1.7949343099196703434e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"look","input":{"place":"left"}}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"tool_use","model":"scripted","first_token":0.0}' AS BLOB),380003815);
INSERT INTO "event" VALUES(3,5,1.7949343099196703434e+09,'tool_started',CAST('{"call_id":"call_1","name":"look","effect":"read","key":"902c9ae9e0d7720c718c75c041fa1ec0/call_1","input":{"place":"left"}}' AS BLOB),2130238746);
INSERT INTO "event" VALUES(3,6,1.79493430996340847015e+09,'tool_finished',CAST('{"result":{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"left is empty."}]}}' AS BLOB),3347820880);
INSERT INTO "event" VALUES(3,7,1794934309.9705,'message',CAST('{"message":{"role":"assistant","content":[{"type":"tool_use","id":"call_2","name":"leave","input":{"place":"the house"}}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"tool_use","model":"scripted","first_token":0.0}' AS BLOB),2536102499);
INSERT INTO "event" VALUES(3,8,1794934309.9705,'tool_started',CAST('{"call_id":"call_2","name":"leave","effect":"write","key":"902c9ae9e0d7720c718c75c041fa1ec0/call_2","input":{"place":"the house"}}' AS BLOB),1695601890);
CREATE TABLE listener (               -- holders that take messages
        session INTEGER PRIMARY KEY,
        fence INTEGER NOT NULL
    );
CREATE TABLE question (
        id TEXT PRIMARY KEY,
        session INTEGER NOT NULL,
        fence INTEGER NOT NULL,           -- of the holder that asks
        call_id TEXT NOT NULL,
        body TEXT NOT NULL,
        asked REAL NOT NULL,
        answer TEXT,                      -- NULL while it waits
        answered_by TEXT NOT NULL DEFAULT '',
        answered REAL
    );
CREATE TABLE reference (
        session INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        PRIMARY KEY (session, sha256)
    ) WITHOUT ROWID;
CREATE TABLE session (
        number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused
        id TEXT NOT NULL UNIQUE,
        parent TEXT NOT NULL DEFAULT '',
        title TEXT NOT NULL DEFAULT '',
        model TEXT NOT NULL DEFAULT '',
        settings TEXT NOT NULL DEFAULT '{}', -- the newest value of each setting
        created REAL NOT NULL,
        updated REAL NOT NULL,
        opened INTEGER NOT NULL,          -- counts up with every opening, independent of clocks
        last INTEGER NOT NULL DEFAULT 0,  -- the seq of the newest event
        turns INTEGER NOT NULL DEFAULT 0,
        size INTEGER NOT NULL DEFAULT 0,
        entries INTEGER NOT NULL DEFAULT 0, -- equal to `last`, unless events were lost
        input_tokens INTEGER NOT NULL DEFAULT 0,
        output_tokens INTEGER NOT NULL DEFAULT 0,
        cached_tokens INTEGER NOT NULL DEFAULT 0,
        cache_write_tokens INTEGER NOT NULL DEFAULT 0,
        reasoning_tokens INTEGER NOT NULL DEFAULT 0,
        cost REAL,
        holder TEXT NOT NULL DEFAULT '',  -- the process that has it open
        fence INTEGER NOT NULL DEFAULT 0, -- counts up with every holder; writes with an older number fail
        beat INTEGER NOT NULL DEFAULT 0,  -- counts up while the holder is alive
        beaten REAL NOT NULL DEFAULT 0
    );
INSERT INTO "session" VALUES(1,'dddfc535944a0dcd5d93e999b4126c0c','','The attic','scripted','{"title":"The attic","model":"scripted","system":"Be brief.","tools":["look"],"limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":""}',1.79493430968428182602e+09,1.7949343097679412365e+09,1,10,3,1378,10,300,30,0,0,0,NULL,'',1,0,1.79493430968428182602e+09);
INSERT INTO "session" VALUES(2,'4a3a52a0b45c2e3795312e1985583d9f','','Count.','scripted','{"model":"scripted","system":"","limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":"","abridged":true}',1.79493430979636955261e+09,1.79493430988379073143e+09,2,9,3,1692,9,400,40,0,0,0,NULL,'',1,0,1.79493430979636955261e+09);
INSERT INTO "session" VALUES(3,'902c9ae9e0d7720c718c75c041fa1ec0','','Look left, then leave.','scripted','{"model":"scripted","system":"","tools":["look","leave"],"limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":""}',1.7949343099057071209e+09,1.79493430997072410583e+09,3,8,2,1248,8,200,20,0,0,0,NULL,'',1,0,1.7949343099057071209e+09);
CREATE TABLE signal (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL,
        fence INTEGER NOT NULL,           -- of the holder that it is for
        body TEXT NOT NULL,
        sent REAL NOT NULL,
        taken REAL
    );
CREATE INDEX session_opened ON session (opened);
CREATE INDEX session_parent ON session (parent) WHERE parent != '';
CREATE INDEX question_session ON question (session);
CREATE INDEX signal_session ON signal (session);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('session',3);
COMMIT;
PRAGMA application_id=1330992210;
PRAGMA user_version=2;
